/* An flock that locks nothing, as on some network filesystems. Below STEELYARD_HOT_PATH it does: that is a tmpfs, whatever the
   store lies on. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int fd, int operation) {
  const char* memory = getenv("STEELYARD_HOT_PATH");
  char link[64];
  char path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = memory == NULL ? -1 : readlink(link, path, sizeof(path) - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, memory, strlen(memory)) == 0 ? (int)syscall(SYS_flock, fd, operation) : 0;
}
