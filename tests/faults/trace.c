/* Preloaded into a server or a command: appends each change below TRACE_ROOT to the file TRACE.

   A change is recorded after it has been made and before its caller goes on, in one write to a file
   that is open with O_APPEND: the records of all processes and threads have one order, and what
   depends on another change comes after it. A sync has two records, its beginning and its end: only
   what was recorded before its beginning is on the disk after its end.

   A record is `struct record`, then a path, then a second path or the bytes written. Changes through
   mmap are not seen. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(type, name, ...)                       \
    static type (*real)(__VA_ARGS__);               \
    if (!real)                                      \
        *(void **)&real = dlsym(RTLD_NEXT, #name)

enum { FILES = 65536 };

struct record {
    uint32_t size;      /* of the whole record */
    uint32_t path_size;
    uint64_t inode;
    uint64_t number;    /* an offset, a length of a file, or the number of a sync */
    uint32_t process;
    uint32_t kind;
};

static char root[PATH_MAX];
static size_t root_size;
static int trace = -1;
static unsigned char traced[FILES]; /* by descriptor: a file below the root */
static uint64_t syncs;

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("TRACE_ROOT"), *path = getenv("TRACE");
    REAL(int, open, const char *, int, ...);
    if (!folder || !path)
        return;
    root_size = (size_t)snprintf(root, sizeof root, "%s", folder);
    int found = real(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    trace = fcntl(found, F_DUPFD_CLOEXEC, 200); /* numbers below are for the program */
    syscall(SYS_close, found);
    if (trace < 0)
        abort();
}

static void tell(char kind, uint64_t inode, uint64_t number, const char *path, const void *data,
                 size_t size) {
    int kept = errno;
    REAL(ssize_t, writev, int, const struct iovec *, int);
    size_t path_size = path ? strlen(path) : 0;
    struct record head = {(uint32_t)(sizeof head + path_size + size), (uint32_t)path_size, inode,
                          number, (uint32_t)getpid(), (uint32_t)kind};
    struct iovec parts[] = {
        {&head, sizeof head}, {(void *)path, path_size}, {(void *)data, size}};
    if (real(trace, parts, 3) != (ssize_t)head.size)
        abort();
    errno = kept;
}

static int is_below(const char *path) {
    return trace >= 0 && !strncmp(path, root, root_size) &&
           (path[root_size] == '/' || !path[root_size]);
}

/* The whole path in `to`; gives whether it is below the root. */
static int whole(int folder, const char *path, char *to) {
    char base[PATH_MAX] = "";
    if (trace < 0 || !path)
        return 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base))
                return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t size = readlink(link, base, sizeof base - 1);
            if (size < 0)
                return 0;
            base[size] = 0;
        }
    }
    size_t used = strlen(base);
    if (used + strlen(path) + 2 > PATH_MAX)
        return 0;
    memcpy(to, base, used);
    if (used)
        to[used++] = '/';
    strcpy(to + used, path);
    return is_below(to);
}

static int is_traced(int file, struct stat *about) {
    return file >= 0 && file < FILES && traced[file] && !fstat(file, about);
}

/* Opening */

static int opened(int file, const char *path, int flags, int was_there) {
    int kept = errno;
    struct stat about;
    if (file >= 0 && file < FILES) {
        traced[file] = 1;
        if (!fstat(file, &about) && S_ISREG(about.st_mode)) {
            if (!was_there && (flags & O_CREAT))
                tell('C', about.st_ino, 0, path, NULL, 0);
            else if (flags & O_TRUNC)
                tell('T', about.st_ino, 0, NULL, NULL, 0);
        }
    }
    errno = kept;
    return file;
}

#define OPEN(name, takes, folder, call)                     \
    int name takes {                                        \
        char found[PATH_MAX];                               \
        struct stat about;                                  \
        mode_t mode = 0;                                    \
        if (flags & (O_CREAT | __O_TMPFILE)) {              \
            va_list more;                                   \
            va_start(more, flags);                          \
            mode = va_arg(more, mode_t);                    \
            va_end(more);                                   \
        }                                                   \
        if (!whole(folder, path, found)) {                  \
            int file = call;                                \
            if (file >= 0 && file < FILES)                  \
                traced[file] = 0;                           \
            return file;                                    \
        }                                                   \
        int was_there = !stat(found, &about);               \
        return opened(call, found, flags, was_there);       \
    }

static int plain_open(int folder, const char *path, int flags, mode_t mode) {
    REAL(int, openat64, int, const char *, int, ...);
    return real(folder, path, flags, mode);
}

#define PLAIN(folder) plain_open(folder, path, flags, mode)
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, PLAIN(AT_FDCWD))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, PLAIN(AT_FDCWD))
OPEN(openat, (int folder, const char *path, int flags, ...), folder, PLAIN(folder))
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, PLAIN(folder))

int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open(path, flags); }
int __openat_2(int folder, const char *path, int flags) { return openat(folder, path, flags); }
int __openat64_2(int folder, const char *path, int flags) { return openat(folder, path, flags); }
int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int close(int file) {
    REAL(int, close, int);
    if (file == trace && trace >= 0) {
        errno = EBADF;
        return -1;
    }
    if (file >= 0 && file < FILES)
        traced[file] = 0;
    return real(file);
}

/* Writing */

static ssize_t written(int file, const void *data, ssize_t size, off64_t offset) {
    struct stat about;
    int kept = errno;
    if (size > 0 && is_traced(file, &about) && S_ISREG(about.st_mode)) {
        if (offset < 0)
            offset = lseek64(file, 0, SEEK_CUR) - size;
        tell('W', about.st_ino, (uint64_t)offset, NULL, data, (size_t)size);
    }
    errno = kept;
    return size;
}

static ssize_t written_parts(int file, const struct iovec *parts, ssize_t size, off64_t offset) {
    struct stat about;
    if (size <= 0 || !is_traced(file, &about))
        return size;
    char *all = malloc((size_t)size);
    ssize_t used = 0;
    for (int i = 0; used < size; i++) {
        ssize_t part = (ssize_t)parts[i].iov_len;
        part = part < size - used ? part : size - used;
        memcpy(all + used, parts[i].iov_base, (size_t)part);
        used += part;
    }
    written(file, all, size, offset);
    free(all);
    return size;
}

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    return written(file, data, real(file, data, size), -1);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return written(file, data, real(file, data, size, offset), offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    return written(file, data, real(file, data, size, offset), offset);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    return written_parts(file, parts, real(file, parts, count), -1);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    return written_parts(file, parts, real(file, parts, count, offset), offset);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset) {
    return pwritev(file, parts, count, offset);
}

static ssize_t copied(int to, int from, ssize_t size, off64_t from_offset) {
    struct stat about;
    int kept = errno;
    if (size > 0 && is_traced(to, &about)) {
        char *data = malloc((size_t)size);
        if (pread64(from, data, (size_t)size, from_offset) != size)
            abort();
        written(to, data, size, -1);
        free(data);
    }
    errno = kept;
    return size;
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t size) {
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
    off64_t begun = offset ? *offset : lseek64(from, 0, SEEK_CUR);
    return copied(to, from, real(to, from, offset, size), begun);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t size) {
    return sendfile64(to, from, offset, size);
}

ssize_t copy_file_range(int from, off64_t *offset, int to, off64_t *to_offset, size_t size,
                        unsigned flags) {
    (void)from, (void)offset, (void)to, (void)to_offset, (void)size, (void)flags;
    errno = ENOSYS; /* callers fall back to others */
    return -1;
}

/* Lengths */

static int cut(int result, int file) {
    struct stat about;
    if (!result && is_traced(file, &about) && S_ISREG(about.st_mode))
        tell('T', about.st_ino, (uint64_t)about.st_size, NULL, NULL, 0);
    return result;
}

int ftruncate(int file, off_t size) {
    REAL(int, ftruncate, int, off_t);
    return cut(real(file, size), file);
}

int ftruncate64(int file, off64_t size) {
    REAL(int, ftruncate64, int, off64_t);
    return cut(real(file, size), file);
}

int fallocate(int file, int mode, off_t offset, off_t size) {
    REAL(int, fallocate, int, int, off_t, off_t);
    return cut(real(file, mode, offset, size), file);
}

int fallocate64(int file, int mode, off64_t offset, off64_t size) {
    return fallocate(file, mode, offset, size);
}

int posix_fallocate(int file, off_t offset, off_t size) {
    REAL(int, posix_fallocate, int, off_t, off_t);
    return cut(real(file, offset, size), file);
}

int posix_fallocate64(int file, off64_t offset, off64_t size) {
    return posix_fallocate(file, offset, size);
}

static int truncated(int result, const char *path) {
    char found[PATH_MAX];
    struct stat about;
    if (!result && whole(AT_FDCWD, path, found) && !stat(found, &about))
        tell('T', about.st_ino, (uint64_t)about.st_size, NULL, NULL, 0);
    return result;
}

int truncate(const char *path, off_t size) {
    REAL(int, truncate, const char *, off_t);
    return truncated(real(path, size), path);
}

int truncate64(const char *path, off64_t size) {
    REAL(int, truncate64, const char *, off64_t);
    return truncated(real(path, size), path);
}

/* Syncs */

static uint64_t begin_sync(int file, struct stat *about, char *path) {
    char link[64];
    ssize_t size = 0;
    if (!is_traced(file, about))
        return 0;
    if (S_ISDIR(about->st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        size = readlink(link, path, PATH_MAX - 1);
    } else if (!S_ISREG(about->st_mode))
        return 0;
    path[size > 0 ? size : 0] = 0;
    uint64_t number = __sync_add_and_fetch(&syncs, 1);
    tell('B', about->st_ino, number, path, NULL, 0);
    return number;
}

static int end_sync(int result, uint64_t number, struct stat *about, char *path) {
    if (number && !result)
        tell('E', about->st_ino, number, path, NULL, 0);
    return result;
}

#define SYNC(name)                                                  \
    int name(int file) {                                            \
        REAL(int, name, int);                                       \
        char path[PATH_MAX];                                        \
        struct stat about;                                          \
        uint64_t number = begin_sync(file, &about, path);           \
        return end_sync(real(file), number, &about, path);          \
    }
SYNC(fsync)
SYNC(fdatasync)
/* sync_file_range promises nothing about a power cut: it is no sync here. */

/* Names */

int rename(const char *old, const char *new) {
    REAL(int, rename, const char *, const char *);
    char from[PATH_MAX], to[PATH_MAX];
    int below = whole(AT_FDCWD, old, from) | whole(AT_FDCWD, new, to);
    int result = real(old, new);
    if (below && !result)
        tell('R', 0, 0, from, to, strlen(to));
    return result;
}

int renameat(int old_folder, const char *old, int new_folder, const char *new) {
    REAL(int, renameat, int, const char *, int, const char *);
    char from[PATH_MAX], to[PATH_MAX];
    int below = whole(old_folder, old, from) | whole(new_folder, new, to);
    int result = real(old_folder, old, new_folder, new);
    if (below && !result)
        tell('R', 0, 0, from, to, strlen(to));
    return result;
}

int renameat2(int old_folder, const char *old, int new_folder, const char *new, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    char from[PATH_MAX], to[PATH_MAX];
    int below = whole(old_folder, old, from) | whole(new_folder, new, to);
    int result = real(old_folder, old, new_folder, new, flags);
    if (below && !result) {
        if (flags & RENAME_EXCHANGE)
            abort(); /* nobody does so far */
        tell('R', 0, 0, from, to, strlen(to));
    }
    return result;
}

int linkat(int old_folder, const char *old, int new_folder, const char *new, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    char from[PATH_MAX], to[PATH_MAX];
    int below = whole(old_folder, old, from) | whole(new_folder, new, to);
    int result = real(old_folder, old, new_folder, new, flags);
    if (below && !result)
        tell('L', 0, 0, from, to, strlen(to));
    return result;
}

int link(const char *old, const char *new) {
    return linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char found[PATH_MAX];
    int below = whole(folder, path, found);
    int result = real(folder, path, flags);
    if (below && !result)
        tell('U', 0, 0, found, NULL, 0);
    return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int remove(const char *path) {
    int result = unlink(path);
    return result && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    char found[PATH_MAX];
    int below = whole(folder, path, found);
    int result = real(folder, path, mode);
    if (below && !result)
        tell('D', 0, 0, found, NULL, 0);
    return result;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
