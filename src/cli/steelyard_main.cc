#include "cli/run.h"

int main(int argc, char** argv) { return steelyard::cli::run(argc, argv); }
