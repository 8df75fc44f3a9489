/* notify.c: sd-daemon, or nothing. */
#include "notify_priv.h"

#ifdef HALO_HAVE_SYSTEMD
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

void halo_notify_ready(void)
{
    sd_notify(0, "READY=1");
}
void halo_notify_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}
void halo_notify_watchdog(void)
{
    sd_notify(0, "WATCHDOG=1");
}

void halo_notify_status(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sd_notifyf(0, "STATUS=%s", text);
}

void halo_notify_extend_ms(uint64_t ms)
{
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long)ms * 1000);
}

void halo_notify_engine_death(const char *reason, const char *phase, long pid)
{
    if (!getenv("JOURNAL_STREAM"))
        return;
    sd_journal_send("MESSAGE=the engine %s", reason, "MESSAGE_ID=" HALO_NOTIFY_ENGINE_DEATH_ID, "PRIORITY=4",
                    "HALO_ENGINE_PHASE=%s", phase, "HALO_ENGINE_PID=%ld", pid, NULL);
}

void halo_notify_doctor(const char *finding)
{
    if (!getenv("JOURNAL_STREAM"))
        return;
    sd_journal_send("MESSAGE=halo-doctor on the engine's death: %s", finding, "MESSAGE_ID=" HALO_NOTIFY_DOCTOR_ID,
                    "PRIORITY=4", "HALO_DOCTOR=%s", finding, NULL);
}

void halo_notify_queues(unsigned n, long pid)
{
    if (!getenv("JOURNAL_STREAM"))
        return;
    sd_journal_send("MESSAGE=the GPU's driver still has %u hardware queues of the engine that died", n,
                    "MESSAGE_ID=" HALO_NOTIFY_QUEUES_ID, "PRIORITY=4", "HALO_QUEUES=%u", n, "HALO_ENGINE_PID=%ld", pid,
                    NULL);
}

uint64_t halo_notify_watchdog_ms(void)
{
    uint64_t us = 0;
    return sd_watchdog_enabled(0, &us) > 0 && us >= 2000 ? us / 2000 : 0;
}

int halo_notify_listen_fds(int *ret_fd)
{
    *ret_fd = SD_LISTEN_FDS_START;
    return sd_listen_fds(1);
}

#else

void halo_notify_ready(void)
{
}
void halo_notify_stopping(void)
{
}
void halo_notify_watchdog(void)
{
}
void halo_notify_extend_ms(uint64_t ms)
{
}
void halo_notify_engine_death(const char *reason, const char *phase, long pid)
{
}
void halo_notify_doctor(const char *finding)
{
}
void halo_notify_queues(unsigned n, long pid)
{
}
void halo_notify_status(const char *format, ...)
{
}
uint64_t halo_notify_watchdog_ms(void)
{
    return 0;
}

int halo_notify_listen_fds(int *ret_fd)
{
    *ret_fd = -1;
    return 0;
}

#endif
