// Exits with 0 if it was linked with the stand-in, not with a library of the system.
#include <llama.h>

int main() { return llama_stand_in() == 42 ? 0 : 1; }
