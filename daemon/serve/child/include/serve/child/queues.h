/* queues.h: the hardware queues that the GPU's driver still has of a process that has ended.
 *
 * The chip maps eight compute queues over all processes. Those of a killed engine come back when the driver has torn
 * its process down, which happens after the process was reaped; a successor that starts before competes with them. Any
 * thread; reads names in sysfs alone, which no driver has to answer for.
 */
#ifndef HALO_SERVE_CHILD_QUEUES_H
#define HALO_SERVE_CHILD_QUEUES_H

#include <sys/types.h>

#define HALO_QUEUES_DIR "/sys/class/kfd/kfd/proc"

/* How many are listed in `proc_dir` for the process. 0: none, no such process (pid 0 too), or no such driver. */
unsigned halo_queues_held(const char *proc_dir, pid_t pid);

#endif
