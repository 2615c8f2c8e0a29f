#pragma once

// The flags of one command: what they are called, what they do to an options struct, and their help.
//
// CLI11 parses and lays out; before it, this class turns every spelling into the flag's long name, because
// llama-server's users type short forms of several letters (-np, -ngl, -ctk), which CLI11 does not know. Environment
// variables become arguments at the same place, for flags that were not given.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mended_line.h"
#include "os/environment.h"

namespace kvkeep::cli {

struct Flag {
  std::string group;                   // heading in --help
  std::string name;                    // "--ctx-size"
  std::vector<std::string> aliases;    // "-c"
  std::vector<std::string> off_names;  // "--no-warmup": the same switch, turned off
  std::string value;                   // what follows, "N"; empty: a switch. "START END": two arguments
  std::string environment;             // "LLAMA_ARG_CTX_SIZE"; empty: none
  std::string default_text;            // as the help and docs/flags.md show it
  std::string effect;                  // one sentence or two
  // Sets the option. A switch gets "on" or "off". An error's message says what was expected, without the flag's name.
  // Called once per occurrence, in order.
  std::function<Status(const std::string& value)> assign;
};

// A flag of another program that users may pass from habit, and why it is refused.
// "--mmproj-*" stands for every name that begins so, "*-draft" for every one that ends so.
struct RefusedFlag {
  std::vector<std::string> names;
  // LLAMA_ARG_... variables that ask for it. "LLAMA_ARG_JINJA=off" only when turned off, "=on" only when turned on;
  // LLAMA_ARG_NO_JINJA turns off as well.
  std::vector<std::string> variables;
  std::string reason;
  // Without it something else would be served than was asked for, in clear, or under other paths: its variables are
  // refused as well. Others may be meant for another server on the machine: a warning says that they set nothing.
  bool essential = false;
  // The words to type in its place: a flag that takes the same value ("--ctx-size"), or, of a switch, a flag with its
  // value ("--load-mode mlock"). Empty: it is left out.
  std::string instead = {};
};

class FlagSet {
 public:
  FlagSet(std::string command, std::string description, std::vector<Flag> flags, std::vector<RefusedFlag> refused = {});

  // Assigns every flag in `arguments` (without program and command name), then every environment variable whose flag
  // was not given. `positional` receives what belongs to no flag; null: nothing may. Returns true if --help was asked
  // for: print help() and stop, whatever else was given. All flags that are unknown or refused are told in one error,
  // with the line that would work if they are understood.
  Result<bool> parse(const std::vector<std::string>& arguments, const os::Environment& environment,
                     std::vector<std::string>* positional = nullptr) const;

  // A line for each LLAMA_ARG_... variable that is set and that parse() passes over: no flag reads it.
  std::vector<std::string> ignored_variables(const os::Environment& environment) const;

  std::string help() const;
  const std::vector<Flag>& flags() const& { return flags_; }
  const std::vector<Flag>& flags() && = delete;  // they would die with the temporary

 private:
  struct Spelling {
    const Flag* flag = nullptr;
    bool off = false;
  };
  // One argument in CLI11's terms.
  struct Canonical {
    const Flag* flag;
    std::string text;      // "--ctx-size=4096"
    std::string spelling;  // as it was given, "-c"
    std::string variable;  // of the environment, if it comes from there
  };

  Spelling find(std::string_view name) const;
  std::vector<std::string> all_names() const;
  bool reads_variable(const std::string& name) const;
  const RefusedFlag* find_refused(const std::string& name) const;
  std::size_t mend(const std::vector<std::string>& arguments, std::size_t at, MendedLine& line) const;
  Status refuse_environment(const os::Environment& environment) const;
  Result<std::vector<Canonical>> canonical(const std::vector<std::string>& arguments,
                                           std::vector<std::string>* positional) const;
  Status add_environment(const os::Environment& environment, std::vector<Canonical>& arguments) const;
  Status assign_all(const std::vector<Canonical>& arguments) const;

  std::string command_;
  std::string description_;
  std::vector<Flag> flags_;
  std::vector<RefusedFlag> refused_;
};

}  // namespace kvkeep::cli
