// Saved states, tensors, and reading without a session.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.h"
#include "os/machine/large_pages.h"
#include "snapshot/snapshot.h"
#include "state/tree.h"

namespace unbroken::bindings {

std::vector<TensorView> views_of(const std::vector<TensorTuple>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const auto& [name, dtype, shape, strides, address, bytes] : tensors) {
    const auto known = dtype_from_name(dtype);
    if (!known) raise(Error(Code::bad_argument, name + ": unknown dtype " + dtype));
    views.push_back({name, *known, shape, strides, reinterpret_cast<void*>(address)});
    const std::uint64_t expected = unwrap(byte_size(*known, shape));
    if (expected != bytes)
      raise(Error(Code::bad_argument, name + ": its size does not fit its shape and dtype"));
  }
  return views;
}

std::vector<TensorTarget> targets_of(const std::vector<TargetTuple>& targets) {
  std::vector<TensorTarget> out;
  out.reserve(targets.size());
  for (const auto& [name, address, bytes] : targets)
    out.push_back({name, {reinterpret_cast<std::byte*>(address), bytes}});
  return out;
}

namespace {

std::vector<Alias> aliases_of(const std::vector<AliasTuple>& aliases) {
  std::vector<Alias> out;
  out.reserve(aliases.size());
  for (const auto& [name, of] : aliases) out.push_back({name, of});
  return out;
}

KnownState known_of(const std::vector<TensorTuple>& tensors, const std::vector<AliasTuple>& aliases,
                    const std::vector<std::uint32_t>& parameters, const std::vector<std::string>& nodes) {
  KnownState known{views_of(tensors), aliases_of(aliases), parameters, {}};
  for (const std::string& node : nodes) known.nodes.push_back(unwrap(parse_tree(node)));
  return known;
}

}  // namespace

StateView state_of(const KnownState* known, const std::vector<PlaceTuple>& places,
                   const std::vector<TensorTuple>& tensors, const std::vector<AliasTuple>& aliases,
                   const std::string& tree, const std::vector<std::uint32_t>& parameters) {
  StateView state{views_of(tensors), aliases_of(aliases), unwrap(parse_tree(tree)), parameters};
  if (known == nullptr) return state;
  std::vector<KnownPlace> into;
  for (const auto& [node, items] : places) into.push_back({node, items});
  unwrap(put_known(state, *known, into));
  return state;
}

namespace {

/// Hashing where there is no session: a few threads for the call.
std::vector<std::string> digests(const std::vector<TensorTuple>& tensors) {
  const std::vector<TensorView> views = views_of(tensors);
  const nb::gil_scoped_release released;
  std::vector<std::string> out;
  const auto executor = OsExecutor::start({.io_threads = 1});
  const auto found =
      executor.ok() ? digest_views(views, *executor.value()) : Result<std::vector<Xxh128>>(executor.error());
  const nb::gil_scoped_acquire acquired;
  for (const Xxh128& digest : unwrap(found)) out.push_back(digest.hex());
  return out;
}

nb::list tensors_of(const SavedState& saved) {
  nb::list out;
  for (const IndexedTensor& t : saved.index.tensors)
    out.append(nb::make_tuple(t.name, std::string(name_of(t.dtype)), nb::tuple(nb::cast(t.shape)), t.bytes,
                              t.digest.hex()));
  return out;
}

/// A run looked at without writing anything but a pin.
class PyReader {
 public:
  PyReader(const std::string& path, const std::string& at, Hold hold) {
    const nb::gil_scoped_release released;
    auto made = open(path, at, hold);
    const nb::gil_scoped_acquire acquired;
    unwrap(std::move(made));
  }
  ~PyReader() {
    const nb::gil_scoped_release released;
    runtime_.reset();
  }
  SavedState saved() const { return reader_->saved(); }
  std::string name() const { return reader_->saved().commit.save.name(); }
  nb::list fell_back() const { return to_python(reader_->fell_back()); }
  void read(const std::vector<TargetTuple>& targets, bool are_new) {
    const auto into = targets_of(targets);
    auto done = [&] {
      const nb::gil_scoped_release released;
      if (are_new)
        for (const TensorTarget& target : into) wish_large_pages(target.into);
      return reader_->read(into, by());
    }();
    unwrap(std::move(done));
  }
  void close() {
    auto done = [&] {
      const nb::gil_scoped_release released;
      return reader_->close(by());
    }();
    unwrap(std::move(done));
  }
  void next_older(const std::string& found) {
    auto done = [&] {
      const nb::gil_scoped_release released;
      return reader_->next_older(by(), found);
    }();
    unwrap(std::move(done));
  }

 private:
  Result<> open(const std::string& path, const std::string& at, Hold hold) {
    UNBROKEN_TRY(runtime_, Runtime::open(path, {.purpose = RuntimeOptions::Purpose::look, .group = {}}));
    UNBROKEN_TRY(Reader reader, Reader::open(runtime_->seams(), at, by(), hold));
    reader_.emplace(std::move(reader));
    return Done{};
  }
  Deadline by() const { return runtime_->seams().within(kCallLimit); }

  std::unique_ptr<Runtime> runtime_;
  std::optional<Reader> reader_;
};

}  // namespace

nb::list to_python(const std::vector<FellBack>& fell_back) {
  nb::list out;
  for (const FellBack& fallen : fell_back) {
    nb::dict item;
    item["name"] = fallen.save.name();
    item["object"] = fallen.object;
    item["what"] = fallen.what;
    out.append(item);
  }
  return out;
}

Duration limit_of(std::optional<double> timeout_s) {
  constexpr double kLongest_s = 1e9;  // a Duration holds ten times that
  if (!timeout_s) return kCallLimit;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(*timeout_s, 0.0, kLongest_s)));
}

void bind_state(nb::module_& m) {
  m.def("digests", &digests, nb::arg("tensors"));
  nb::class_<KnownState>(m, "Known")
      .def(
          "__init__",
          [](KnownState* self, const std::vector<TensorTuple>& tensors,
             const std::vector<AliasTuple>& aliases, const std::vector<std::uint32_t>& parameters,
             const std::vector<std::string>& nodes) {
            new (self) KnownState(known_of(tensors, aliases, parameters, nodes));
          },
          nb::arg("tensors"), nb::arg("aliases"), nb::arg("parameters"), nb::arg("nodes"));
  nb::class_<SavedState>(m, "SavedState")
      .def_prop_ro("step", [](const SavedState& s) { return s.commit.save.step; })
      .def_prop_ro("attempt", [](const SavedState& s) { return s.commit.save.attempt; })
      .def_prop_ro("name", [](const SavedState& s) { return s.commit.save.name(); })
      .def_prop_ro("tree", [](const SavedState& s) { return tree_text(s.index.tree); })
      .def_prop_ro("tensors", &tensors_of)
      .def_prop_ro("alias",
                   [](const SavedState& s) {
                     std::vector<std::pair<std::string, std::string>> out;
                     for (const Alias& alias : s.index.aliases) out.emplace_back(alias.name, alias.of);
                     return out;
                   })
      .def_prop_ro("run", [](const SavedState& s) { return s.run; })
      .def_prop_ro("provenance", [](const SavedState& s) { return s.manifest.provenance; });
  nb::enum_<Hold>(m, "Hold")
      .value("nothing", Hold::nothing)
      .value("if_alive", Hold::if_alive)
      .value("pin", Hold::pin);
  nb::class_<PyReader>(m, "Reader")
      .def(nb::init<const std::string&, const std::string&, Hold>(), nb::arg("path"), nb::arg("at"),
           nb::arg("hold") = Hold::nothing)
      .def_prop_ro("saved", &PyReader::saved)
      .def_prop_ro("name", &PyReader::name)
      .def_prop_ro("fell_back", &PyReader::fell_back)
      .def("read", &PyReader::read, nb::arg("targets"), nb::arg("are_new") = false)
      .def("next_older", &PyReader::next_older, nb::arg("found"))
      .def("close", &PyReader::close);
}

}  // namespace unbroken::bindings
