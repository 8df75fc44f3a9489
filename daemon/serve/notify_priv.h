/* notify_priv.h: what the service manager is told: readiness, status, a live loop, the end; and the sockets that it
 * passed.
 *
 * Without libsystemd, or when no manager listens, every call does nothing. Loop thread.
 */
#ifndef HALO_SERVE_NOTIFY_PRIV_H
#define HALO_SERVE_NOTIFY_PRIV_H

#include <stdint.h>

void halo_notify_ready(void);
void halo_notify_stopping(void);
__attribute__((format(printf, 1, 2))) void halo_notify_status(const char *format, ...);
void halo_notify_watchdog(void);
/* Stopping takes this much longer. */
void halo_notify_extend_ms(uint64_t ms);

/* An entry of its own in the journal, found by its MESSAGE_ID: why the engine was given up, and in which phase. */
#define HALO_NOTIFY_ENGINE_DEATH_ID "6f0b3c1e5a9d4b7c8e2f1d0a4c7b9e35"
void halo_notify_engine_death(const char *reason, const char *phase, long pid);

/* The same for what halo-doctor found afterwards. */
#define HALO_NOTIFY_DOCTOR_ID "b1d94e27c06a4f58a3e7d2915c8f6b40"
void halo_notify_doctor(const char *finding);

/* The same for hardware queues of a dead engine that the driver did not give back. */
#define HALO_NOTIFY_QUEUES_ID "3c8a5d0f7e214b96a1d2f4c6b8e09a57"
void halo_notify_queues(unsigned n, long pid);

/* Half of the watchdog's time, 0 when there is none. */
uint64_t halo_notify_watchdog_ms(void);

/* The number of sockets passed by the manager, and the first one's descriptor. Takes them out of the environment, so
 * that the engine does not inherit the claim. */
int halo_notify_listen_fds(int *ret_fd);

#endif
