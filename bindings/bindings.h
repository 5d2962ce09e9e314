#pragma once
// Shared by the parts of the extension.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/engine.h"
#include "engine/read/reader.h"
#include "session/runtime.h"
#include "session/settings.h"
#include "snapshot/known_state.h"

namespace unbroken::bindings {

namespace nb = nanobind;

/// (code, kind, message, next_command).
nb::object tuple_of(const Error& error);
/// Raises CoreError(code, kind, message, next_command).
[[noreturn]] void raise(const Error& error);

/// The value, or the error as an exception.
template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

/// (name, dtype, shape, strides in elements, address, bytes).
using TensorTuple = std::tuple<std::string, std::string, std::vector<std::uint64_t>,
                               std::vector<std::int64_t>, std::uintptr_t, std::uint64_t>;
/// (name, address, bytes).
using TargetTuple = std::tuple<std::string, std::uintptr_t, std::uint64_t>;

std::vector<TensorView> views_of(const std::vector<TensorTuple>& tensors);
std::vector<TensorTarget> targets_of(const std::vector<TargetTuple>& targets);
using AliasTuple = std::pair<std::string, std::string>;
/// (node, indices of items).
using PlaceTuple = std::pair<std::uint32_t, std::vector<std::uint32_t>>;
/// `known`: what stands before, or null.
StateView state_of(const KnownState* known, const std::vector<PlaceTuple>& places,
                   const std::vector<TensorTuple>& tensors, const std::vector<AliasTuple>& aliases,
                   const std::string& tree, const std::vector<std::uint32_t>& parameters);

void bind_state(nb::module_& m);
void bind_session(nb::module_& m);

/// [{"name", "object", "what"}].
nb::list to_python(const std::vector<FellBack>& fell_back);
/// None: as long as a call may take at all.
Duration limit_of(std::optional<double> timeout_s);

}  // namespace unbroken::bindings
