/* sandbox.c: the files that the process may touch, by Landlock, and its other vows.
 *
 * Main thread, once. Landlock holds for the calling thread and for those it starts later. The threads of a GPU's
 * runtime exist as soon as its device is open, so this comes before, and what opening a device needs is allowed.
 */
#include <sandbox/sandbox.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <base/folder.h>
#include <base/log.h>

#include "calls_priv.h"

/* Younger than the headers of Linux 6.1. */
#define RIGHT_TRUNCATE (1ull << 14)
#define RIGHT_IOCTL_DEV (1ull << 15)
#define NET_ALL 3ull   /* binding and connecting TCP sockets */
#define SCOPE_ALL 3ull /* abstract Unix sockets of, and signals to, processes outside */
struct ruleset {
    uint64_t files, net, scope;
};

#define RIGHTS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_DEVICE (RIGHTS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT_IOCTL_DEV)
#define RIGHTS_FOLDER                                                                                                  \
    (RIGHTS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |    \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | RIGHT_TRUNCATE)
/* What a rule about something that is no directory may name. */
#define RIGHTS_OF_A_FILE                                                                                               \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT_TRUNCATE | RIGHT_IOCTL_DEV)
/* Everything that the first Landlock knew. */
#define RIGHTS_FIRST ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)

#define PATH_BYTES 4096

static const char *const system_files[] = {
    "/usr", "/opt", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/nix/store", "/gnu/store", "/proc", "/sys",
};
static const char *const plain_devices[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};
/* The last one is for the provider of HIP's functions over NVIDIA's driver (tests/hip-cuda). */
static const char *const gpu_devices[] = {"/dev/kfd", "/dev/dri", "/dev/nvidia*"};

struct files {
    int ruleset;
    uint64_t handled; /* rights that need a rule */
    int error;        /* the first one, negative */
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- rules ---- */

/* What is not there needs no rule. A link stands for what it points to. */
static void allow(struct files *files, const char *path, uint64_t rights)
{
    struct stat facts;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    rights &= files->handled;
    if (fstat(fd, &facts) == 0 && !S_ISDIR(facts.st_mode))
        rights &= RIGHTS_OF_A_FILE;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    if (rights && syscall(SYS_landlock_add_rule, files->ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 &&
        files->error == 0)
        files->error = -errno;
    close(fd);
}

static void allow_each(struct files *files, const char *const *patterns, size_t n, uint64_t rights)
{
    for (size_t i = 0; i < n; i++) {
        glob_t found;
        if (glob(patterns[i], GLOB_NOSORT, NULL, &found) != 0)
            continue;
        for (size_t j = 0; j < found.gl_pathc; j++)
            allow(files, found.gl_pathv[j], rights);
        globfree(&found);
    }
}

/* The folder that a file lies in. */
static void allow_folder_of(struct files *files, const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (slash && snprintf(folder, sizeof(folder), "%.*s/", (int)(slash - path), path) < (int)sizeof(folder))
        allow(files, folder, RIGHTS_READ);
}

/* A folder of models, and the files that links in it point to: weights often lie on another disk. */
static void allow_models(struct files *files, const char *dir)
{
    allow(files, dir, RIGHTS_READ);
    DIR *stream = opendir(dir);
    for (struct dirent *entry; stream && (entry = readdir(stream));) {
        char path[PATH_BYTES];
        struct stat facts;
        if (entry->d_type == DT_DIR || entry->d_type == DT_REG ||
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= (int)sizeof(path))
            continue;
        if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode))
            allow(files, path, LANDLOCK_ACCESS_FS_READ_FILE);
    }
    if (stream)
        closedir(stream);
}

static void allow_libraries(struct files *files, const char *hip_lib)
{
    const char *kernels = getenv("HALO_KERNEL_DIR"), *searched = getenv("LD_LIBRARY_PATH");
    char *list = searched ? strdup(searched) : NULL;
    for (char *rest = list, *dir; (dir = strsep(&rest, ":"));)
        allow(files, dir, RIGHTS_READ);
    free(list);
    allow(files, kernels && *kernels ? kernels : HALO_KERNEL_DIR, RIGHTS_READ);
    allow(files, "/proc/self/exe", RIGHTS_READ); /* for the symbols of a sanitizer's report */
    if (hip_lib)
        allow_folder_of(files, hip_lib);
}

/* Prefixes and profiles and nothing beside them: the models often lie in the same folder. */
static void allow_state(struct files *files, const char *state_dir)
{
    static const char *const folders[] = {"prefixes", "profiles"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < LENGTH(folders); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", state_dir, folders[i]) >= (int)sizeof(path))
            return;
        /* A rule needs a folder that is there; whoever writes into it says why not. */
        (void)halo_folder_make(path, 0700);
        allow(files, path, RIGHTS_FOLDER);
    }
}

/* AMD's runtime compiles its copy kernels when a device is opened; its compiler leaves files where TMPDIR points. They
 * go into a folder of their own, so that nothing else that lies there can be written. */
static void allow_temporary(struct files *files, const char *program)
{
    char path[PATH_BYTES];
    struct stat facts;
    const char *where = getenv("TMPDIR");
    if (snprintf(path, sizeof(path), "%s/%s-%u", where && *where ? where : "/tmp", program, (unsigned)geteuid()) >=
        (int)sizeof(path))
        return;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return;
    if (lstat(path, &facts) < 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 077)) {
        halo_log(HALO_LOG_WARN,
                 "sandbox: %s is not a folder of this user alone, the GPU's runtime gets no place for "
                 "temporary files",
                 path);
        return;
    }
    setenv("TMPDIR", path, 1);
    allow(files, path, RIGHTS_FOLDER);
}

/* ---- entering ---- */

static int make_ruleset(struct files *files, int abi, bool models_only)
{
    struct ruleset set = {.files = RIGHTS_FIRST};
    if (!models_only)
        set.files &= ~(uint64_t)RIGHTS_READ;
    if (abi >= 3)
        set.files |= RIGHT_TRUNCATE;
    if (abi >= 4)
        set.net = NET_ALL;
    if (abi >= 5)
        set.files |= RIGHT_IOCTL_DEV;
    if (abi >= 6)
        set.scope = SCOPE_ALL;
    size_t size = abi >= 6 ? sizeof(set) : abi >= 4 ? offsetof(struct ruleset, scope) : offsetof(struct ruleset, net);
    *files = (struct files){.handled = set.files};
    files->ruleset = (int)syscall(SYS_landlock_create_ruleset, &set, size, 0);
    return files->ruleset < 0 ? -errno : 0;
}

static void add_rules(struct files *files, const struct halo_sandbox *sandbox)
{
    allow_each(files, plain_devices, LENGTH(plain_devices), RIGHTS_DEVICE);
    if (sandbox->gpu) {
        allow_each(files, gpu_devices, LENGTH(gpu_devices), RIGHTS_DEVICE);
        allow(files, "/dev/shm", RIGHTS_FOLDER); /* the runtime's performance counters */
        /* Names of other threads are files: NVIDIA's driver does not start without giving its own. */
        allow(files, "/proc/self/task", LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT_TRUNCATE);
        allow_temporary(files, sandbox->program);
    }
    if (sandbox->state_dir)
        allow_state(files, sandbox->state_dir);
    if (sandbox->work_dir)
        allow(files, sandbox->work_dir, RIGHTS_FOLDER);
    if (!sandbox->models_only)
        return;
    allow_each(files, system_files, LENGTH(system_files), RIGHTS_READ);
    allow_libraries(files, sandbox->hip_lib);
    for (size_t i = 0; i < sandbox->n_model_dirs; i++)
        allow_models(files, sandbox->model_dirs[i]);
}

/* The ABI of the kernel's Landlock, or negative errno. */
static int restrict_files(const struct halo_sandbox *sandbox)
{
    struct files files;
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0)
        return -errno;
    int r = make_ruleset(&files, abi, sandbox->models_only);
    if (r < 0)
        return r;
    add_rules(&files, sandbox);
    r = files.error;
    if (r == 0 && syscall(SYS_landlock_restrict_self, files.ruleset, 0) < 0)
        r = -errno;
    close(files.ruleset);
    return r < 0 ? r : abi;
}

void halo_sandbox_enter(const struct halo_sandbox *sandbox)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        halo_log(HALO_LOG_WARN, "sandbox: prctl: %s", strerror(errno));
    int abi = restrict_files(sandbox);
    if (abi < 0)
        halo_log(HALO_LOG_WARN,
                 "sandbox: this kernel does not restrict files (Landlock: %s); %s can reach what its user can",
                 strerror(-abi), sandbox->program);
    int r = halo_sandbox_filter_calls();
    if (r < 0)
        halo_log(HALO_LOG_WARN, "sandbox: this kernel does not filter system calls (seccomp: %s)", strerror(-r));
    halo_log(HALO_LOG_DEBUG, "sandbox: Landlock ABI %d, seccomp %s, files are %s", abi, r < 0 ? "off" : "on",
             abi < 0                ? "not restricted"
             : sandbox->models_only ? "models only"
                                    : "readable");
}
