/* probe.h: how a check reads: bounded reads of a machine's files, or of a tree recorded from one.
 *
 * Every path begins with a slash and is looked up below the sysroot; links in a recorded tree stay in it. Only regular
 * files are read, never more than the caller has room for. A read may still block in the kernel (a wedged GPU's sysfs
 * does): a check therefore runs in a child with a deadline, and the path that it reads stands in memory that its parent
 * sees. What is read is noted in the finding unless a function says otherwise. One thread.
 */
#ifndef HALO_DOCTOR_PROBE_H
#define HALO_DOCTOR_PROBE_H

#include <sys/stat.h>

#include "extents.h"
#include "report.h"

#define HALO_DOCTOR_PATH_BYTES 512
#define HALO_DOCTOR_NAME_BYTES 64

struct halo_doctor_probe {
    const char *sysroot; /* "": this machine */
    const char *hip_lib; /* NULL: not given */
    struct halo_doctor_finding *finding;
    char *at; /* HALO_DOCTOR_PATH_BYTES: the path that is being read; empty between reads */
};

/* The bytes of a file, a NUL after them; nothing is noted. How many, or negative errno: -EFBIG when they do not fit in
 * `room` - 1, -EINVAL when it is not a regular file. */
__attribute__((format(printf, 4, 5))) long halo_doctor_probe_bytes(struct halo_doctor_probe *probe, char *buf,
                                                                   size_t room, const char *format, ...);
/* The same, but what comes after the first `room` - 1 bytes is dropped silently. */
__attribute__((format(printf, 4, 5))) long halo_doctor_probe_head(struct halo_doctor_probe *probe, char *buf,
                                                                  size_t room, const char *format, ...);
/* The end of a log: of a file, or of the kernel's device, which gives one record per read. Otherwise as above. */
__attribute__((format(printf, 4, 5))) long halo_doctor_probe_log(struct halo_doctor_probe *probe, char *buf,
                                                                 size_t room, const char *format, ...);
/* One line of text without its end. 0 or negative errno: -EINVAL when it is more than a line, or not text. Noted. */
__attribute__((format(printf, 4, 5))) int halo_doctor_probe_word(struct halo_doctor_probe *probe, char *buf,
                                                                 size_t room, const char *format, ...);
/* A number, decimal or 0x. 0 or negative errno: -EINVAL when it is not a number. Noted. */
__attribute__((format(printf, 3, 4))) int halo_doctor_probe_number(struct halo_doctor_probe *probe, uint64_t *ret,
                                                                   const char *format, ...);
/* What is there, links followed. 0 or negative errno. Not noted. */
__attribute__((format(printf, 3, 4))) int halo_doctor_probe_stat(struct halo_doctor_probe *probe, struct stat *ret,
                                                                 const char *format, ...);
/* Opens and closes what is there for reading and writing. 0 or negative errno. Not noted. */
__attribute__((format(printf, 2, 3))) int halo_doctor_probe_open(struct halo_doctor_probe *probe, const char *format,
                                                                 ...);
/* Asks a device file. 0 or negative errno. Not noted. */
__attribute__((format(printf, 4, 5))) int halo_doctor_probe_ioctl(struct halo_doctor_probe *probe,
                                                                  unsigned long request, void *argument,
                                                                  const char *format, ...);
/* How a file lies on its drive. A recorded tree says it beside the file, in PATH.extents: "BYTES PIECES" and, where
 * they apply, the words compressed and encrypted. 0 or negative errno; see extents.h. Not noted. */
__attribute__((format(printf, 3, 4))) int halo_doctor_probe_extents(struct halo_doctor_probe *probe,
                                                                    struct halo_doctor_extents *ret, const char *format,
                                                                    ...);
/* Where a link points, a NUL after it. 0 or negative errno. Not noted. */
__attribute__((format(printf, 4, 5))) int halo_doctor_probe_link(struct halo_doctor_probe *probe, char *buf,
                                                                 size_t room, const char *format, ...);
/* Up to `max` names in a folder, numbers in them in order ("card2" before "card10"); names longer than
 * HALO_DOCTOR_NAME_BYTES - 1 and hidden ones are left out. How many, or negative errno. Not noted. */
__attribute__((format(printf, 4, 5))) long halo_doctor_probe_list(struct halo_doctor_probe *probe,
                                                                  char (*names)[HALO_DOCTOR_NAME_BYTES], size_t max,
                                                                  const char *format, ...);

#endif
