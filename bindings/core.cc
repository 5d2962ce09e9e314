// The extension unbroken._core: the engine as the Python package sees it. Glue only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/check.h"
#include "base/shown.h"
#include "base/utf8.h"
#include "bindings.h"
#include "data/permutation.h"
#include "os/worker_guard.h"
#include "session/environment.h"
#include "session/redirect.h"
#include "unbroken_version.h"

namespace unbroken::bindings {

nb::object core_error_type;

nb::object tuple_of(const Error& error) {
  return nb::make_tuple(std::string(name_of(error.code())), std::string(kind_of(error.code()).name),
                        shown(error), error.next_command());
}

void raise(const Error& error) {
  PyErr_SetObject(core_error_type.ptr(), tuple_of(error).ptr());
  throw nb::python_error();
}

namespace {

nb::dict version() {
  nb::dict out;
  out["version"] = UNBROKEN_VERSION;
  out["format"] = 1;
  out["commit"] = UNBROKEN_COMMIT;
  return out;
}

std::vector<std::uint64_t> fill(const KeyedPermutation& permutation, std::uint64_t start,
                                std::uint64_t count) {
  if (start > permutation.count() || count > permutation.count() - start)
    raise(Error(Code::bad_argument, "positions beyond the end of the epoch"));
  std::vector<std::uint64_t> out(count);
  permutation.fill(start, out);
  return out;
}

void guard(int owner, bool dies_with_owner) {
  if (auto done = guard_worker({.owner = owner, .dies_with_owner = dies_with_owner}); !done.ok())
    raise(done.error());
}

}  // namespace

}  // namespace unbroken::bindings

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace unbroken;
  using namespace unbroken::bindings;
  // A process that ends by an exception leaves objects behind; that is not worth a word to a user.
  nb::set_leak_warnings(false);
  m.doc() = "The native core of unbroken.";
  core_error_type = nb::steal(PyErr_NewException("unbroken._core.CoreError", PyExc_Exception, nullptr));
  m.attr("CoreError") = core_error_type;
  // A check that fails on the caller's thread is an error like any other there.
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CheckFailed& e) {
      const Error error(Code::bug, e.what());
      PyErr_SetObject(core_error_type.ptr(), tuple_of(error).ptr());
    }
  });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { core_error_type.reset(); }));
  m.def("version", &version);
  m.def("check_environment", [] {
    if (auto fine = check_environment(OsProcess()); !fine.ok()) raise(fine.error());
  });
  m.def(
      "run_directory", [](const std::string& path) { return redirected(OsProcess(), path); },
      nb::arg("path"));
  nb::class_<KeyedPermutation>(m, "Permutation")
      .def(nb::init<std::uint64_t, std::uint64_t, std::uint64_t>(), nb::arg("n"), nb::arg("seed"),
           nb::arg("epoch"))
      .def("at", &KeyedPermutation::at)
      .def("fill", &fill, nb::arg("start"), nb::arg("count"));
  m.def("guard_worker", &guard, nb::arg("owner"), nb::arg("dies_with_owner"));
  bind_state(m);
  bind_session(m);
  // Passes are counted from here on; what cannot be used is refused by the first run.
  static_cast<void>(use_environment(OsProcess()).ok());
}
