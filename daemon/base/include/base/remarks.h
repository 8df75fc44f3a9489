/* remarks.h: sentences about what is done differently from what somebody may expect, for whoever asked for it.
 *
 * Fixed room, never allocated; belongs to one thread at a time. Zeroed means empty.
 */
#ifndef HALO_BASE_REMARKS_H
#define HALO_BASE_REMARKS_H

#include <stdint.h>

#define HALO_REMARKS 8        /* at most; the last one then says that there are more */
#define HALO_REMARK_BYTES 256 /* each, NUL included; cut where a UTF-8 character begins */

struct halo_remarks {
    uint32_t n;
    char text[HALO_REMARKS][HALO_REMARK_BYTES];
};

__attribute__((format(printf, 2, 3))) void halo_remarks_add(struct halo_remarks *remarks, const char *format, ...);
void halo_remarks_append(struct halo_remarks *remarks, const struct halo_remarks *more);

#endif
