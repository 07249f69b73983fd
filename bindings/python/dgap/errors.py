"""What the package raises: one class per status of the C interface (dgap/runtime.h)."""


class Error(Exception):
    """Whatever goes wrong here is one of these."""


class InvalidArgumentError(Error, ValueError):
    """A width below the vocabulary, an unknown precision, contexts that are missing, ..."""


class ArrayTypeError(InvalidArgumentError, TypeError):
    """Not an array that can be corrected in place: its type, its device, or it is read-only."""


class BundleError(Error, OSError):
    """The bundle cannot be read, or is damaged."""


class UnsupportedError(Error):
    """A newer bundle, or a precision without what was asked for."""


class OutOfMemoryError(Error, MemoryError):
    """Not enough memory."""


class InternalError(Error, RuntimeError):
    """A fault of dgap."""


class MismatchError(InvalidArgumentError):
    """The bundle was made for another model or another cache (dgap.checks)."""


class MismatchWarning(UserWarning):
    """The same where it may still be meant so, or something that edits logits before dgap does."""


#: Index: dgap_status.
BY_STATUS = (Error, InvalidArgumentError, BundleError, UnsupportedError, OutOfMemoryError, InternalError)
