#pragma once

// The flags of one command: what they are called, what they do to an options struct, and their help.
//
// Short forms may have several letters (-np, -ngl, -ctk), as llama-server's users type them. Environment variables
// stand for flags that were not given.

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "command_words.h"
#include "os/process.h"

namespace kvkeep::cli {

// Sets an option to the value of a flag; flag_values.h has functions that make one.
struct Assign {
  Assign() = default;
  template <std::invocable<const std::string&> Set>
  Assign(Set setter, std::string held = {}) : set(std::move(setter)), default_text(std::move(held)) {}

  // Sets the option. A switch gets "on" or "off". An error's message says what was expected, without the flag's name.
  // Called once per occurrence, in order.
  std::function<Status(const std::string& value)> set;
  std::string default_text;  // the value of the option if nothing sets it; empty: not known here
  bool adds_up = false;      // the flag may be given several times
};

// For a flag of which only some values ask for what is so anyway: the others are refused, as a RefusedFlag is.
struct OnlyValues {
  std::vector<std::string> values = {};  // numbers match however they are written; empty: `assign` decides
  std::string reason = {};               // why the others are refused

  bool allow(const std::string& value) const;
};

// A row of a table of flags.
struct Flag {
  std::string group = {};  // heading in --help; empty: that of the previous row
  // As --help and docs/flags.md show it: "-c, --ctx-size N"; "--warmup, --no-warmup"; "--range START END", which takes
  // two arguments. The documentation uses the last name. A name that begins with --no-, and all names after it, turn
  // the switch off, if a name before them turns it on.
  std::string spelling = {};
  std::string environment = {};   // "LLAMA_ARG_CTX_SIZE"; empty: none
  std::string default_text = {};  // as --help and docs/flags.md show it; empty: that of `assign`
  std::string effect = {};        // one sentence or two
  Assign assign = {};
  OnlyValues only = {};
};

// A row with its spelling split into names and value.
struct KnownFlag : Flag {
  explicit KnownFlag(Flag row);

  std::string name;                    // "--ctx-size"
  std::vector<std::string> aliases;    // "-c"
  std::vector<std::string> off_names;  // "--no-warmup": the same switch, turned off
  std::string value;                   // "N"; empty: a switch
};

// A flag of another program that users may pass from habit, and why it is refused.
// "--mmproj-*" stands for every name that begins so, "*-draft" for every one that ends so.
struct RefusedFlag {
  std::vector<std::string> names;
  // LLAMA_ARG_... variables that set the same. "LLAMA_ARG_JINJA=off" matches only if it is turned off, "=on" only if it
  // is turned on; LLAMA_ARG_NO_JINJA turns off as well.
  std::vector<std::string> variables;
  std::string reason;  // empty: the flag has another name here, `instead`
  // Ignoring this flag would serve something else than was asked for, in clear, or under other paths: its variables are
  // refused as well. Variables of other flags may be meant for another server on the machine: a warning is enough.
  bool essential = false;
  // The words to type instead: a flag that takes the same value ("--ctx-size"), or, for a switch, a flag with its value
  // ("--load-mode mlock"). Empty if the flag is to be left out.
  std::string instead = {};
};

// A command as its manual describes it.
struct CommandManual {
  std::string name;   // "cache ls"
  std::string usage;  // "kvkeep cache ls [flags] ID"
  std::string description;
  std::vector<KnownFlag> flags;  // to be read only: they set nothing
};

class FlagSet {
 public:
  // `usage`: "kvkeep cache ls [flags] ID".
  FlagSet(std::string usage, std::string description, std::vector<Flag> flags, std::vector<RefusedFlag> refused = {});

  // Assigns every flag in `arguments` (those after the program's and the command's name), then every environment
  // variable whose flag was not given. `positional` receives the arguments that belong to no flag; with null they are
  // errors. Returns true if --help was given: print help() and stop. One error names all unknown and refused flags and
  // all bad values, and adds a line that works if only flags are wrong and all of them are understood.
  Result<bool> parse(const std::vector<std::string>& arguments, const os::Environment& environment,
                     std::vector<std::string>* positional = nullptr) const;

  // Returns a line for each LLAMA_ARG_... variable that is set although no flag reads it.
  std::vector<std::string> ignored_variables(const os::Environment& environment) const;

  // Arguments that belong to no flag are values of this one.
  void take_words_for(std::string flag) { words_set_ = std::move(flag); }

  // From now on help() lists only these flags, by their last names, and refers to --help-all for the others.
  void shorten_help(std::vector<std::string> names) { shown_ = std::move(names); }
  // Description, usage, then the flags under their groups in order of first appearance, at most 100 columns wide.
  std::string help() const;
  std::string help_all() const;  // lists all flags
  CommandManual manual() const;
  const std::vector<KnownFlag>& flags() const& { return flags_; }
  const std::vector<KnownFlag>& flags() && = delete;  // a temporary's flags would be gone

 private:
  struct Spelling {
    const KnownFlag* flag = nullptr;
    bool off = false;
  };
  // A flag with its value, from the command line or the environment.
  struct Given {
    const KnownFlag* flag;
    std::string value;
    std::string source;  // the name as it was given, "-c", or its variable: errors begin with it
    bool is_variable = false;
  };

  Spelling find(std::string_view name) const;
  std::string flag_set_by(const std::string& name) const;
  std::vector<std::string> all_names() const;
  bool reads_variable(const std::string& name) const;
  std::string help_with(bool all) const;
  const RefusedFlag* find_refused(const std::string& name) const;
  std::size_t mend(const std::vector<std::string>& arguments, std::size_t at, std::vector<Given>& given,
                   MendedLine& line) const;
  Status refuse_environment(const os::Environment& environment) const;
  Status read_arguments(const std::vector<std::string>& arguments, std::vector<std::string>* positional,
                        std::vector<Given>& given, MendedLine& line) const;
  Status read_environment(const os::Environment& environment, std::vector<Given>& given) const;
  void assign(const std::vector<Given>& given, MendedLine& line) const;

  std::string usage_;
  std::string description_;
  std::vector<KnownFlag> flags_;
  std::vector<RefusedFlag> refused_;
  std::string words_set_;           // the flag that arguments without one set; empty: none
  std::vector<std::string> shown_;  // by help(); empty: all
};

}  // namespace kvkeep::cli
