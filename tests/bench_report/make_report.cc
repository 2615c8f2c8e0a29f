// Writes reports as pages for page_test.py, and for looking at them.
//
//   make_report DIRECTORY

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "bench/report/report.h"
#include "bench/report/report_fixture.h"

namespace kvkeep::bench {
namespace {

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

int write_all(const char* directory) {
  const std::pair<const char*, Report> reports[] = {{"good", realistic_report(false)},
                                                    {"problems", realistic_report(true)},
                                                    {"hostile", hostile_report()},
                                                    {"huge", huge_report(3, 10'000)},
                                                    {"wide", huge_report(70, 2'000)},
                                                    {"unanswered", report_without_an_answer()},
                                                    {"refused", report_with_a_refusal()},
                                                    {"small", small_report()},
                                                    {"empty", Report{}}};
  for (const auto& [name, report] : reports) {
    if (!write_file(fmt::format("{}/{}.html", directory, name), to_html(report))) {
      fmt::print(stderr, "make_report: cannot write {}/{}.html\n", directory, name);
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvkeep::bench

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: make_report DIRECTORY\n");
    return 2;
  }
  return kvkeep::bench::write_all(arguments[1]);
}
