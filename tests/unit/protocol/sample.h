/* sample.h: messages with something in every field, made from message.def.
 *
 * Level 0 holds the least value of each field, 1 the greatest (long texts shortened), 2 values in between with every
 * optional field absent. The samples point to constants.
 */
#ifndef HALO_TEST_SAMPLE_H
#define HALO_TEST_SAMPLE_H

#include <protocol/message.h>

#define N_SAMPLE_LEVELS 3

/* Requests that offer a choice come with the `choice`-th alternative; sample_n_choices() says how many there are. */
int sample_n_choices(enum halo_msg_type type);
void sample_msg(struct halo_msg *msg, enum halo_msg_type type, int level, int choice);
void sample_ev(struct halo_ev *ev, enum halo_ev_type type, int level);

#endif
