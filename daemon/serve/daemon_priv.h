/* daemon_priv.h: what the files of the router know of each other. */
#ifndef HALO_SERVE_DAEMON_PRIV_H
#define HALO_SERVE_DAEMON_PRIV_H

#include <serve/daemon.h>

/* report.c: answers hello, status and stats. */
void halo_report_query(struct halo_daemon *daemon, struct halo_request *request, const struct halo_ev *said);
/* The state of the engine, for people. */
const char *halo_report_engine_state(const struct halo_daemon *daemon);
/* What is known of the last death (what the doctor said, queues that did not come back), for the end of a message: see
 * halo_requests_ops.death_note. */
const char *halo_report_death_note(struct halo_daemon *daemon, bool advise);

/* watchdog.c: feeds the service manager's watchdog while the engine makes progress or is being replaced. */
void halo_watchdog_start(struct halo_daemon *daemon);
void halo_watchdog_feed(struct halo_daemon *daemon);

/* shutdown.c */
/* The engine's answer to `save`; NULL: it died. */
void halo_shutdown_saved(struct halo_daemon *daemon, const char *line, size_t len);
/* Looks whether it is time for the next stage. */
void halo_shutdown_check(struct halo_daemon *daemon);

#endif
