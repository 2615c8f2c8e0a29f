#include <fmt/format.h>
#include <fmt/ranges.h>

#include "inspect/print/print.h"
#include "inspect/print/text_parts.h"
#include "text/printable.h"

namespace kvkeep::inspect {
namespace {

std::string file_line(const FileView& file, std::int64_t now_ns) {
  const std::string base = file.base ? fmt::format(", built on {}", file.base->value()) : "";
  return fmt::format("  {:<12}{:>8} .. {:<8} {:>10}  {}{}{}\n    {}\n    sum {}\n", file.kind, file.range.begin.value(),
                     file.range.end.value(), size_text(file.bytes), age_text(file.modified_ns, now_ns),
                     file.sampled ? ", sampled" : "", base, file.name, file.sum);
}

}  // namespace

std::string harmless(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find_first_of("\n\t");
    out += text::printable(text.substr(0, end), SIZE_MAX);
    if (end == std::string_view::npos) return out;
    out += text[end];
    text.remove_prefix(end + 1);
  }
}

std::string show_text(const PrefixView& view, std::int64_t now_ns, bool with_ids,
                      const std::optional<std::string>& text) {
  std::string out = fmt::format("{}\n", view.run.id);
  append_line(out, "hash", view.run.hash);
  append_line(out, "model", view.fingerprint);
  append_line(out, "tenant", view.run.tenant);
  append_line(out, "path", fmt::format("{}", fmt::join(view.path, " > ")));
  append_line(out, "tokens",
              fmt::format("{}, of which {} from {} on are its own", text::grouped(view.run.range.end.value()),
                          text::grouped(view.run.range.size()), view.run.range.begin.value()));
  append_line(out, "size",
              fmt::format("{} in {}", size_text(view.run.bytes()), counted(view.run.files(), "file", "files")));
  append_line(out, "last used", age_text(view.run.used_ns, now_ns));
  out += "\n";
  for (const FileView& file : view.files) out += file_line(file, now_ns);
  if (with_ids) out += fmt::format("\n{}\n", fmt::join(view.ids, " "));
  if (text) out += fmt::format("\n{}\n", *text);
  return out;
}

}  // namespace kvkeep::inspect
