"""Policy: what is decided. Every threshold stands once, in ``policy.yaml``; profiles and user files overlay it."""
