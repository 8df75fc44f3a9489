/* dequant_priv.h: one block in the layout of the file, aligned to 8 bytes, -> its weights as floats. Pure. */
#ifndef HALO_CPU_DEQUANT_PRIV_H
#define HALO_CPU_DEQUANT_PRIV_H

typedef void halo_dequant_fn(const void *block, float *y);

halo_dequant_fn halo_dequant_iq1_s, halo_dequant_iq1_m, halo_dequant_iq2_xxs, halo_dequant_iq2_xs, halo_dequant_iq2_s;
halo_dequant_fn halo_dequant_iq3_xxs, halo_dequant_iq3_s, halo_dequant_tq1_0, halo_dequant_tq2_0, halo_dequant_q1_0;
halo_dequant_fn halo_dequant_q2_0, halo_dequant_nvfp4;

#endif
