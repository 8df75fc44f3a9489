/* calls.c: the system calls that a sandboxed process may not make, by a seccomp filter.
 *
 * A list of what is refused, not of what is allowed: the runtimes of GPUs are libraries of others, and each version of
 * them makes calls that the one before did not. Calls that are younger than this list do not exist for the process.
 * Refused calls answer EPERM, so that a library which only tries goes on; clone3 and younger calls answer ENOSYS, which
 * the C library knows how to live with. Linux on x86-64 only.
 */
#include "calls_priv.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

#define LAST_KNOWN_CALL SYS_set_mempolicy_home_node /* Linux 5.17 */

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const uint16_t refused[] = {
    /* Other programs and processes. */
    SYS_execve,
    SYS_execveat,
    SYS_fork,
    SYS_vfork,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_kcmp,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    /* A socket reaches nobody without it: not the session's bus either. */
    SYS_connect,
    /* What Landlock does not see: a ring opens sockets, attributes and owners are no access to a file. */
    SYS_io_uring_setup,
    SYS_chmod,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_chown,
    SYS_fchown,
    SYS_lchown,
    SYS_fchownat,
    SYS_truncate,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_utimensat,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    /* Other privileges, other views of the system. */
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_capset,
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mount,
    SYS_umount2,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    /* The machine. */
    SYS_reboot,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_swapon,
    SYS_swapoff,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_vhangup,
    SYS__sysctl,
    SYS_sysfs,
    SYS_uselib,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
    /* Parts of the kernel in which faults were found and that nobody here needs. */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_fanotify_init,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
};

#define WORD_OF(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD_OF(field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
#define REFUSE(number) (SECCOMP_RET_ERRNO | (number))
/* One instruction: skips `yes` or `no` of those that follow. */
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, yes, no)

/* Calls that are refused by their arguments. The number of the call is loaded. */
#define BY_ARGUMENT                                                                                                    \
    /* a thread, never a process */                                                                                    \
    IF(BPF_JEQ, SYS_clone, 0, 4), LOAD(args[0]), IF(BPF_JSET, CLONE_THREAD, 1, 0), ANSWER(REFUSE(EPERM)),              \
        ANSWER(SECCOMP_RET_ALLOW), IF(BPF_JEQ, SYS_clone3, 0, 1),                                                      \
        ANSWER(REFUSE(ENOSYS)), /* the same, but the filter cannot see its flags */                                    \
        IF(BPF_JEQ, SYS_tgkill, 0, 4), LOAD(args[0]), IF(BPF_JEQ, (uint32_t)getpid(), 1, 0), ANSWER(REFUSE(EPERM)),    \
        ANSWER(SECCOMP_RET_ALLOW), /* no network; NVIDIA's driver does not start without a Unix socket to listen on */ \
        IF(BPF_JEQ, SYS_socket, 0, 4), LOAD(args[0]), IF(BPF_JEQ, AF_UNIX, 1, 0), ANSWER(REFUSE(EPERM)),               \
        ANSWER(SECCOMP_RET_ALLOW), /* typing on the terminal of the person who started it */                           \
        IF(BPF_JEQ, SYS_ioctl, 0, 5), LOAD(args[1]), IF(BPF_JEQ, TIOCSTI, 1, 0), IF(BPF_JEQ, TIOCLINUX, 0, 1),         \
        ANSWER(REFUSE(EPERM)), ANSWER(SECCOMP_RET_ALLOW)

int halo_sandbox_filter_calls(void)
{
    const struct sock_filter head[] = {
        LOAD(arch),
        IF(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS), /* the calls of 32-bit programs have other numbers */
        LOAD(nr),
        IF(BPF_JGT, LAST_KNOWN_CALL, 0, 1), /* those of x32 too: their numbers have a high bit set */
        ANSWER(REFUSE(ENOSYS)),
        BY_ARGUMENT,
    };
    struct sock_filter filter[LENGTH(head) + 2 * LENGTH(refused) + 1];
    uint16_t n = 0;
    for (size_t i = 0; i < LENGTH(head); i++)
        filter[n++] = head[i];
    for (size_t i = 0; i < LENGTH(refused); i++) {
        filter[n++] = (struct sock_filter)IF(BPF_JEQ, refused[i], 0, 1);
        filter[n++] = (struct sock_filter)ANSWER(REFUSE(EPERM));
    }
    filter[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = filter};
    /* SPEC_ALLOW: kernels before 5.16 slow a filtered process down against speculation attacks of code that it runs for
     * others; a sandboxed process runs nobody's code on the CPU. */
    unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return r == 0 ? 0 : r < 0 ? -errno : -EBUSY; /* positive: a thread that has a filter of its own */
}

#else

int halo_sandbox_filter_calls(void)
{
    return -ENOTSUP;
}

#endif
