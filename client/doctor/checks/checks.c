/* checks.c: runs the checks, each in a child of its own, all of them at once, until one deadline.
 *
 * A wedged GPU's files can block a reader where no signal reaches it. So the children write into memory that is shared
 * with the parent, who takes what is there when the time is over, kills, and goes on without those that do not die:
 * they hold no handle of the report's. (child.h runs one child at a time: two dozen of them behind a stuck driver would
 * take a deadline each.)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <client/clock.h>

#include "check_priv.h"

#define REAP_MS 2000 /* what killed children get to go; on a machine that is busy they need it */

/* Shared with the child. */
struct desk {
    struct halo_doctor_finding finding;
    char at[HALO_DOCTOR_PATH_BYTES];
    bool is_done;
};

struct run {
    pid_t pid; /* 0: not started, or reaped */
    int fd;    /* closes when the child does; -1: closed */
    int status;
    bool was_killed;
};

const struct halo_doctor_check halo_doctor_checks[] = {
#define OPEN HALO_DOCTOR_STAGE_OPEN
#define LOAD HALO_DOCTOR_STAGE_LOAD
#define LAUNCH HALO_DOCTOR_STAGE_LAUNCH
#define STEP HALO_DOCTOR_STAGE_STEP
#define PASS (1u << HALO_DOCTOR_PASS)
#define WARN (1u << HALO_DOCTOR_WARN)
#define FAIL (1u << HALO_DOCTOR_FAIL)
#define SKIP (1u << HALO_DOCTOR_SKIP)
#define CHECK(id, title, stages, verdicts, source) {#id, title, source, stages, verdicts, halo_doctor_look_##id},
#include "check.def"
#undef CHECK
#undef OPEN
#undef LOAD
#undef LAUNCH
#undef STEP
#undef PASS
#undef WARN
#undef FAIL
#undef SKIP
};
const size_t halo_doctor_n_checks = sizeof halo_doctor_checks / sizeof *halo_doctor_checks;

/* ---- the child ---- */

/* Nothing of the parent's stays open but `fd`: a child that cannot be killed would keep the report's readers. */
static void let_go(int fd)
{
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3 && nothing >= 0; i++)
        dup2(nothing, i);
    if (fd != 3 && dup2(fd, 3) < 0)
        _exit(1);
    if (close_range(4, ~0u, 0) != 0) /* kernels before 5.9 */
        for (int i = 4; i < 1024; i++)
            close(i);
}

static void look(const struct halo_doctor_check *check, const struct halo_doctor_options *options, struct desk *desk)
{
    struct halo_doctor_probe probe = {
        .sysroot = options->sysroot, .hip_lib = options->hip_lib, .finding = &desk->finding, .at = desk->at};
    check->look(&probe, &desk->finding);
    halo_doctor_finding_end(&desk->finding);
    desk->is_done = true;
}

static void start(const struct halo_doctor_check *check, const struct halo_doctor_options *options, struct desk *desk,
                  struct run *run)
{
    int ends[2];
    *run = (struct run){.fd = -1};
    halo_doctor_finding_init(&desk->finding, check->id, check->title);
    snprintf(desk->finding.source, sizeof desk->finding.source, "%s", check->source);
    desk->finding.stages = check->stages;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        run->status = -errno;
        return;
    }
    pid_t parent = getpid();
    run->pid = fork();
    if (run->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        let_go(ends[1]);
        look(check, options, desk);
        _exit(0);
    }
    close(ends[1]);
    run->fd = ends[0];
    if (run->pid < 0) {
        run->status = -errno;
        run->pid = 0;
        close(run->fd);
        run->fd = -1;
    }
}

/* ---- the parent ---- */

/* Waits until all have ended or the time is over. */
static void wait_all(struct run *runs, size_t n, int64_t until_ms)
{
    struct pollfd *fds = calloc(n, sizeof *fds);
    for (size_t n_open = n; fds && n_open > 0;) {
        int64_t left = until_ms - halo_client_now_ms();
        n_open = 0;
        for (size_t i = 0; i < n; i++) {
            fds[i] = (struct pollfd){.fd = runs[i].fd, .events = POLLIN};
            n_open += runs[i].fd >= 0;
        }
        if (n_open == 0 || left <= 0 || (poll(fds, n, (int)left) < 0 && errno != EINTR))
            break;
        for (size_t i = 0; i < n; i++)
            if (runs[i].fd >= 0 && fds[i].revents) {
                close(runs[i].fd);
                runs[i].fd = -1;
            }
    }
    free(fds);
}

/* Takes the exit statuses; those that still run are killed. One that does not go even then keeps its pid. */
static void reap_all(struct run *runs, size_t n)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    int64_t until_ms = halo_client_now_ms() + REAP_MS;
    for (size_t i = 0; i < n; i++)
        if (runs[i].pid > 0 && runs[i].fd >= 0) {
            runs[i].was_killed = true;
            kill(runs[i].pid, SIGKILL);
            close(runs[i].fd);
            runs[i].fd = -1;
        }
    for (size_t i = 0; i < n; i++) {
        pid_t r = 0;
        while (runs[i].pid > 0 && (r = waitpid(runs[i].pid, &runs[i].status, WNOHANG)) == 0 &&
               halo_client_now_ms() < until_ms)
            nanosleep(&moment, NULL);
        if (r != 0)
            runs[i].pid = 0;
    }
}

static void conclude(struct desk *desk, const struct run *run, const struct halo_doctor_options *options)
{
    struct halo_doctor_finding *finding = &desk->finding;
    if (desk->is_done)
        return;
    desk->at[sizeof desk->at - 1] = '\0';
    finding->read[sizeof finding->read - 1] = '\0';
    if (desk->at[0])
        halo_doctor_finding_read(finding, "%s: no answer", desk->at);
    if (run->was_killed && run->pid > 0) {
        finding->stages =
            HALO_DOCTOR_STAGE_OPEN | HALO_DOCTOR_STAGE_LOAD | HALO_DOCTOR_STAGE_LAUNCH | HALO_DOCTOR_STAGE_STEP;
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "It did not end within %d ms and cannot be killed: the driver behind that file is "
                                "stuck. `journalctl -k` shows the last messages; only a reboot frees it.",
                                options->wait_ms);
    } else if (run->was_killed)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "It did not end within %d ms. When the machine is not merely busy (--wait-ms gives it "
                                "more time), the driver behind that file is stuck, and `journalctl -k` shows its last "
                                "messages.",
                                options->wait_ms);
    else if (run->status < 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN, "The check could not be started: %s.",
                                strerror(-run->status));
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN, "This check broke (status 0x%x): a defect of halo-doctor.",
                                (unsigned)run->status);
}

void halo_doctor_checks_run_list(const struct halo_doctor_check *checks, size_t n,
                                 const struct halo_doctor_options *options, struct halo_doctor_report *report)
{
    struct desk *desks = mmap(NULL, n * sizeof *desks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct run *runs = calloc(n, sizeof *runs);
    if (desks == MAP_FAILED || !runs) {
        report->error = -ENOMEM;
    } else {
        int64_t until_ms = halo_client_now_ms() + options->wait_ms;
        if (report->out)
            fflush(report->out);
        for (size_t i = 0; i < n; i++)
            start(&checks[i], options, &desks[i], &runs[i]);
        wait_all(runs, n, until_ms);
        reap_all(runs, n);
        for (size_t i = 0; i < n; i++) {
            conclude(&desks[i], &runs[i], options);
            struct halo_doctor_finding *finding;
            finding = halo_doctor_report_begin(report, checks[i].id, checks[i].title);
            *finding = desks[i].finding;
            halo_doctor_report_end(report, finding);
        }
    }
    free(runs);
    if (desks != MAP_FAILED)
        munmap(desks, n * sizeof *desks);
}

void halo_doctor_checks_run(const struct halo_doctor_options *options, struct halo_doctor_report *report)
{
    halo_doctor_checks_run_list(halo_doctor_checks, halo_doctor_n_checks, options, report);
}
