#include <fmt/format.h>

#include <algorithm>

#include "bench/html_page.h"
#include "bench/html_style.h"
#include "bench/report.h"
#include "bench/report_summary.h"
#include "bench/report_text.h"
#include "bench/svg_plot.h"

namespace kvkeep::bench {
namespace {

// The icon keeps browsers from asking a server for one; the policy keeps everything else inside, whatever a name holds.
constexpr std::string_view kHead =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
    "data:\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n";

void add_heading(std::string& page, const Report& report, const Detail& detail) {
  const std::size_t most = detail.characters / 2;
  page += kHead;
  page +=
      fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n", html_text(report.title, most), kHtmlStyle);
  page += fmt::format("<header>\n<h1>{}</h1>\n<p class=\"soft\">Started {}</p>\n</header>\n<main>\n",
                      html_text(report.title, most), html_text(report.started, most));
  if (detail != Detail{}) {
    page +=
        "<p class=\"soft\">This report is too long for one page: plots and tables show a part of it, and say which. "
        "The "
        "JSON and CSV forms have all of it.</p>\n";
  }
}

void add_problems(std::string& page, const Report& report, const Detail& detail) {
  const std::vector<std::string> problems = problems_of(report);
  if (problems.empty()) return;
  page += fmt::format(
      "<section class=\"problems\" aria-labelledby=\"problems\">\n<h2 id=\"problems\">{} problem{}</h2>\n<ul>\n",
      grouped(problems.size()), problems.size() == 1 ? "" : "s");
  const std::size_t shown = std::min(problems.size(), detail.rows);
  for (std::size_t i = 0; i < shown; ++i) {
    page += fmt::format("<li>{}</li>\n", html_text(problems[i], 2 * detail.characters));
  }
  page += "</ul>\n" + html_left_out(problems.size(), shown, "problems") + "</section>\n";
}

void add_servers(std::string& page, const Report& report, const Detail& detail) {
  const std::size_t most = detail.characters / 2;
  const std::size_t shown = std::min(report.servers.size(), detail.rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const ServerInfo& server = report.servers[i];
    page += fmt::format("<dt>Server</dt><dd>{}, version {}: <code>{}</code></dd>\n", html_text(server.name, most),
                        html_text(server.version, most), html_text(server.flags, 2 * detail.characters));
  }
  page += "</dl>\n" + html_left_out(report.servers.size(), shown, "servers");
}

void add_setting(std::string& page, const Report& report, const Detail& detail) {
  const std::size_t most = detail.characters / 2;
  const Machine& machine = report.machine;
  const auto entry = [&](const char* name, const std::string& text) {
    page += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, text);
  };
  page += "<section aria-label=\"What was run\">\n<dl>\n";
  entry("Machine", fmt::format("{} × {}, {} of memory, {}", machine.logical_cpus, html_text(machine.processor, most),
                               memory_size(machine.memory_bytes), html_text(machine.system, most)));
  if (!report.other_work.empty()) entry("Meanwhile", html_text(report.other_work, most));
  entry("kvkeep", html_text(report.kvkeep_version, most));
  entry("libllama", html_text(report.libllama_version, most));
  entry("Model", html_text(report.model, most));
  add_servers(page, report, detail);
  page += "</section>\n";
}

std::string page_of(const Report& report, const Detail& detail) {
  std::string page;
  add_heading(page, report, detail);
  add_problems(page, report, detail);
  add_setting(page, report, detail);
  add_html_summary(page, report, detail);
  add_html_parts(page, report, detail);
  add_html_runs(page, report, detail);
  page += "</main>\n</body>\n</html>\n";
  return page;
}

}  // namespace

std::string to_html(const Report& report) {
  Detail detail;
  std::string page = page_of(report, detail);
  // The coarsest page has one of everything, a few kilobytes, so this ends.
  while (page.size() > kMostPageBytes && detail != detail.coarser()) {
    detail = detail.coarser();
    page = page_of(report, detail);
  }
  return page;
}

}  // namespace kvkeep::bench
