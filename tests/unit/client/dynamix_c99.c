/* That the header is C99, and that a C program uses it. */

#include "client/dynamix.h"

#include <math.h>

uint32_t dynamix_c99_trains(uint32_t steps);

/* Trains alone for so many steps; returns how many it could. */
uint32_t dynamix_c99_trains(uint32_t steps) {
  dynamix_options options = {sizeof options, 0, 1, 0, NULL};
  dynamix_workload workload = {.size = sizeof workload, .batch = 4, .samples = 10, .shuffle = 1};
  int64_t row[DYNAMIX_INTRODUCTION_COLUMNS];
  int64_t numbers[DYNAMIX_ROW_COLUMNS];
  uint32_t done = 0;
  dynamix_run* run = dynamix_open(&options, NULL, 0);
  if (run == NULL || dynamix_introduce(run, &workload, row) || dynamix_begin(run, row))
    return 0;
  while (done < steps && dynamix_start_epoch(run) == DYNAMIX_OK) {
    dynamix_deal deal = {.size = sizeof deal};
    while (done < steps && dynamix_deal_next(run, &deal) == DYNAMIX_OK && dynamix_deliver(run, &deal) == DYNAMIX_OK) {
      dynamix_step_rate rate = {.size = sizeof rate};
      dynamix_step step = {.size = sizeof step, .loss = NAN, .correct = -1};
      if (dynamix_due(run) & DYNAMIX_GATHER && (dynamix_write_row(run, 0, numbers) || dynamix_read_rows(run, numbers)))
        break;
      if (dynamix_rate(run, 0, &rate) || dynamix_complete(run, &step))
        break;
      ++done;
    }
  }
  dynamix_close(run);
  return done;
}
