/* main.c: halod. */
#include <protocol/standard_fds.h>
#include <serve/program.h>

int main(int argc, char **argv)
{
    if (halo_standard_fds_open() < 0)
        return 1;
    return halo_program_run(argc, argv);
}
