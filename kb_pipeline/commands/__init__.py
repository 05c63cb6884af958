"""The commands of ``kb``, by what they are about. Only click is imported before a command runs."""
