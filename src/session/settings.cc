#include "session/settings.h"

#include <algorithm>

#include "restore/choose.h"

namespace unbroken {

Result<EngineOptions> engine_options(Runtime& runtime, const RunOptions& options) {
  if (options.keep_last == 0) return Error(Code::bad_argument, "keep_last: at least 1 checkpoint");
  EngineOptions out;
  UNBROKEN_TRY(out.schedule, Schedule::parse(options.every));
  UNBROKEN_TRY(out.open.resume, parse_at(options.resume));
  out.open.is_fresh_allowed = options.is_fresh_allowed;
  out.open.is_takeover = options.is_takeover || runtime.seams().process.env("UNBROKEN_TAKEOVER") == "1";
  out.open.policy = {.keep_last = options.keep_last, .verified_min = std::min(2U, options.keep_last)};
  out.open.has_sign = options.resume != "newest";
  out.open.probe = [&runtime](const Deadline& by) { return runtime.probe(by); };
  out.raises_on_save_error = options.raises_on_save_error;
  out.provenance = provenance_of(runtime);
  UNBROKEN_TRY(out.tap, tap_of(runtime.seams().process));
  return out;
}

}  // namespace unbroken
