#pragma once

// This process: its cost, its limits, its memory, where its standard streams lead, its environment, and random bytes.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::os {

int process_id();
// User and system time of this process, all threads.
double cpu_seconds();

// Lets this process open as many files and sockets as the system allows (the soft limit becomes the hard one), and
// returns that number. Children inherit it.
std::size_t raise_open_files_limit();

// Gives freed memory back to the system. The C library keeps freed memory for the thread that used it: after large work
// on one of many threads, that memory serves none of the others. Takes milliseconds. Thread safe.
void return_freed_memory();

// Makes the C library give large pieces of memory back as soon as they are freed. Else it learns from the first one
// that such pieces come often, keeps later ones, and a server that was sent a few large bodies stays as large as they
// were. To be called at start, before threads allocate.
void keep_memory_returnable();

// Return true if a person watches standard error, reads standard output, can answer on standard input.
bool errors_go_to_a_terminal();
bool output_goes_to_a_terminal();
bool input_comes_from_a_terminal();

// Environment variables, name to value. They are read once at start and passed on as a value, so that parsing them is a
// pure function.
using Environment = std::map<std::string, std::string, std::less<>>;

// Returns a copy of the environment as it is now. Call it before threads that change the environment could run.
Environment read_environment();

// Begins this program anew, in this process, with the same arguments and one more environment variable: for libraries
// that read the environment only as they are loaded. Returns only if that fails. Call it before anything is open that
// the new program would inherit.
Status restart_with(const std::string& variable, const std::string& value);

// Returns true if a library with this in its file's name is loaded ("libgomp").
bool has_loaded(std::string_view library);

// Returns the file that a shell would run for this name: looked up in PATH if it has no slash. kNotFound if there is
// none, or it may not be executed.
Result<std::string> find_program(const std::string& name);

// Fills in random bytes that nobody can predict. Ends the process if the system has none. Thread safe.
void fill_random(MutableByteSpan out);

}  // namespace kvkeep::os
