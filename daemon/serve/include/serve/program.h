/* program.h: all of halod behind its main(): tests put theirs in front of it. Logs, and may end the process. */
#ifndef HALO_SERVE_PROGRAM_H
#define HALO_SERVE_PROGRAM_H

/* The exit status: 0 after SIGTERM, SIGINT or SIGHUP, 1 failure, 2 wrong usage. */
int halo_program_run(int argc, char **argv);

#endif
