"""Why a database could not be used, as far as the installation and its operator are concerned."""

from enum import Enum


class Cause(Enum):
    """Why a file or a schema could not be read or written."""

    BUSY = "another holds it for too long, or this process has too many open files"
    FULL = "the disk, or a quota, is full"
    READ_ONLY = "the file system is read-only"
    NO_RIGHT_TO_WRITE = "the file may only be read"
    NO_SERVER = "the database server cannot be reached"
    UNUSABLE = "the file is damaged, or its rights or its disk do not allow to use it"
