/* main.c: halod. */
#include <serve/program.h>

int main(int argc, char **argv)
{
    return halo_program_run(argc, argv);
}
