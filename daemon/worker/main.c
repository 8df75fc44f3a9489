/* main.c: hip-worker, the supervisor and, with --session, its child. */
#include <base/log.h>
#include <hip/hip.h>
#include <protocol/standard_fds.h>

#include "peer_priv.h"
#include "supervisor_priv.h"

int main(int argc, char **argv)
{
    struct halo_worker_options options;
    struct halo_fault fault = {0};
    if (halo_standard_fds_open() < 0)
        return 1;
    int status = halo_worker_options_parse(&options, argc, argv);
    if (status >= 0)
        return status;
    halo_hip_limit_queues();
    if (options.session_fd >= 0)
        halo_peer_run(&options);
    if (halo_supervisor_run(&options, argc, argv, &fault) < 0) {
        halo_log(HALO_LOG_ERROR, "%s", fault.text);
        return 1;
    }
    return 0;
}
