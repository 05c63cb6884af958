"""One family of errors. Each says where, what, which value and what to do, and carries the exit code of ``kb``.

Belongs here: the exceptions that cross floors. The sentence is built inside the error class, so that every place
that raises one words it alike. Exit codes are those of the command-line contract.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


class KbError(Exception):
    """Base of all errors that a user can act on. ``exit_code`` is what ``kb`` returns."""

    exit_code = 1


class UsageError(KbError):
    """Wrong usage, configuration or input file (exit 2)."""

    exit_code = 2


class PolicyError(UsageError):
    """A policy file that cannot be used: names the file and each wrong key."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.source = source
        self.problems = list(problems)
        super().__init__(f"policy {source}: " + "; ".join(self.problems))


class UnknownNameError(UsageError):
    """Something was named that does not exist; the nearest known names are offered."""

    def __init__(self, what: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        offer = f" Did you mean {near[0]!r}?" if near else ""
        if not near and names:
            offer = " Known: " + ", ".join(names[:8]) + (", …" if len(names) > 8 else "") + "."
        super().__init__(f"unknown {what} {name!r}.{offer}" + (f" {hint}" if hint else ""))


class WeekError(UsageError):
    """A week that cannot be curated: malformed, in the future, or before the last applied one."""


class DatabaseError(UsageError):
    """The database cannot be reached or used as configured."""


class MigrationError(UsageError):
    """The schema history of the database and the migration files disagree."""


class EncoderError(UsageError):
    """The encoder is missing, its weights are not the expected ones, or it has no calibrated thresholds (K16)."""


class RecordedVerdictsError(UsageError):
    """A file of recorded verdicts that cannot be used: names file and line, never what a judge said."""

    @classmethod
    def unreadable(cls, path: object, reason: str) -> RecordedVerdictsError:
        """A file that is not there, or may not be read."""
        return cls(f"{path}: cannot be read: {reason}. judge.replay_file is a file that kb verdicts has written.")

    @classmethod
    def wrong_line(cls, path: object, line: int, reason: str) -> RecordedVerdictsError:
        """A line that is no verdict."""
        return cls(f"{path}:{line}: {reason}. A line is one verdict as kb verdicts writes it; record the file again.")


class LabelledPairsError(UsageError):
    """A file of labelled pairs that cannot be used: names file, line and field, never the text."""

    @classmethod
    def wrong_line(cls, path: object, line: int, field: str, reason: str) -> LabelledPairsError:
        """A line that is no labelled pair."""
        return cls(
            f"{path}:{line}: {field}: {reason}. A line is a JSON object with a and b (a text or an import row) and label."
        )

    @classmethod
    def unmapped(cls, path: object, counts: Mapping[str, int], known: Iterable[str]) -> LabelledPairsError:
        """Labels that nobody gave a meaning."""
        listed = ", ".join(f"{label!r} ({count} pairs)" for label, count in sorted(counts.items())[:8])
        more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
        example = next(iter(sorted(counts)))
        return cls(
            f"{path}: labels without a meaning: {listed}{more}. Map each to one of {', '.join(known)}, as in "
            f"--map '{example}=KEEP_BOTH'."
        )

    @classmethod
    def empty(cls, path: object) -> LabelledPairsError:
        """A file without pairs."""
        return cls(f"{path} holds no labelled pair; give a JSONL file with a, b and label in each line.")

    @classmethod
    def unreadable(cls, path: object, error: Exception) -> LabelledPairsError:
        """The file is missing, or no file of its kind."""
        reason = getattr(error, "strerror", None) or error
        return cls(f"{path} cannot be read: {reason}. Give a .jsonl or .jsonl.gz file of labelled pairs.")

    @classmethod
    def too_few(cls, path: object, what: str, needed: int, found: int) -> LabelledPairsError:
        """Not enough pairs for what is to be measured on them."""
        return cls(f"{path}: {found} {what}, and {needed} are needed to measure anything. Give more labelled pairs.")


class CorpusBusyError(KbError):
    """Another run or import holds the corpus."""

    exit_code = 1

    def __init__(self, corpus: str) -> None:
        super().__init__(
            f"corpus {corpus!r} is being worked on by another run or import; nothing was changed. "
            "Wait until it has finished (kb runs shows it) and try again."
        )


class HaltedError(KbError):
    """A blocking check failed between plan and apply: nothing was applied (exit 4)."""

    exit_code = 4


class RollbackError(UsageError):
    """A rollback that is refused, with the reason."""


class ReviewError(UsageError):
    """An answer that cannot be given: stale, given already, not allowed here, or in need of a second look."""


class VectorError(KbError):
    """Vectors that cannot be compared by cosine: names the row, what is wrong with it and what to do."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {problem}. {remedy}")

    @classmethod
    def not_a_matrix(cls, where: str, shape: tuple[int, ...], dtype: object) -> VectorError:
        """The array is not a matrix of float32 rows."""
        return cls(
            where,
            f"expected float32 vectors of shape [rows, dimensions], got {dtype} of shape {list(shape)}",
            "Pass the encoder's matrix as float32, one row a text.",
        )

    @classmethod
    def not_unit(cls, where: str, row: int, norm: float) -> VectorError:
        """A row has another length than 1, or holds NaN or infinity (``norm`` is then NaN or infinite)."""
        return cls(
            where,
            f"row {row} has length {norm:.6g}, expected 1 within 0.001",
            "Normalise the rows, and leave out texts that have no vector.",
        )

    @classmethod
    def lengths_differ(cls, where: str, expected_count: int, counts: dict[str, int]) -> VectorError:
        """Arrays that go row by row with the vectors have another length."""
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        return cls(where, f"there are {expected_count} vectors, but {listed}", "Pass one value a row.")

    @classmethod
    def threshold_out_of_range(cls, where: str, min_similarity: float) -> VectorError:
        """A similarity threshold that no cosine can be compared with."""
        return cls(where, f"min_similarity is {min_similarity!r}", "Give a number from -1 to 1.")

    @classmethod
    def owner_in_two_blocks(cls, where: str, owner: int) -> VectorError:
        """One owner's windows stand in several blocks, so its pairs could be found twice."""
        return cls(
            where, f"owner {owner} has windows in more than one block", "Give all windows of an entry one block."
        )


class PlaceError(UsageError):
    """A file or folder that a command needs cannot be read or written (exit 2)."""

    @classmethod
    def refused_by_system(cls, error: OSError) -> PlaceError:
        """The file system says no: a missing folder, a file in the way, no permission, a full disk."""
        where = error.filename if error.filename is not None else "a file"
        return cls(
            f"{where} cannot be used: {error.strerror or error}. Free the place or some space, or set KB_HOME or the "
            "option that names it to another one, and try again: whatever was begun was not applied by halves."
        )


class ReportFolderError(UsageError):
    """Report files cannot be written where they should go; the run itself is not touched."""

    @classmethod
    def not_writable(cls, folder: object, error: OSError) -> ReportFolderError:
        """The file system refuses: read-only, full, or something else stands in the way."""
        reason = error.strerror or str(error)
        return cls(
            f"reports cannot be written to {folder}: {reason}. Make the folder writable or free some space, or name "
            "another one with --out, and run the week again: it changes nothing twice."
        )

    @classmethod
    def unusable_name(cls, corpus: str) -> ReportFolderError:
        """The corpus has a name that no folder can have."""
        return cls(
            f"corpus {corpus!r} cannot name a folder of reports: it is empty, '.', '..' or holds a slash, backslash or NUL. "
            "Import the corpus under another name."
        )
