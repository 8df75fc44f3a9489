/* main.c: halo-doctor: why does it not work on this machine? See halo-doctor(1). */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <protocol/standard_fds.h>

#include "bringup/bringup.h"
#include "checks/checks.h"
#include "options.h"
#include "tiers/tiers.h"

int main(int argc, char **argv)
{
    char help[] = "--help", version[] = "--version";
    struct halo_doctor_options options;
    struct halo_doctor_report report;
    int closed = halo_standard_fds_open();
    if (closed < 0 || closed & 1 << STDOUT_FILENO) /* no output: there is nowhere to report to */
        return 2;
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "bringup") == 0)
        return halo_doctor_bringup(argc - 1, argv + 1);
    /* The words stand for the options of their name, as in haloctl. */
    if (argc == 2 && strcmp(argv[1], "help") == 0)
        argv[1] = help;
    else if (argc == 2 && strcmp(argv[1], "version") == 0)
        argv[1] = version;
    switch (halo_doctor_options_read(argc, argv, &options)) {
    case HALO_DOCTOR_OPTIONS_DONE: return 0;
    case HALO_DOCTOR_OPTIONS_WRONG: return 2;
    }
    halo_doctor_report_init(&report, options.form, stdout);
    halo_doctor_report_open(&report, options.sysroot);
    halo_doctor_checks_run(&options, &report);
    if (!options.checks_only)
        halo_doctor_tiers_run(&options, &report);
    halo_doctor_report_close(&report);
    int status = halo_doctor_report_exit(&report);
    halo_doctor_report_finish(&report);
    return status;
}
