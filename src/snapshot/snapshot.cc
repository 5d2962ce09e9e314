#include "snapshot/snapshot.h"

#include "snapshot/tensor_view.h"
#include "world/parallel.h"

namespace unbroken {

Result<std::vector<Xxh128>> digest_views(std::span<const TensorView> views, Executor& executor) {
  for (const TensorView& view : views) UNBROKEN_DO(check_view(view));
  std::vector<Xxh128> digests(views.size());
  UNBROKEN_DO(parallel_for(executor, Lane::compute, views.size(), [&](std::size_t i) -> Result<> {
    UNBROKEN_TRY(const std::uint64_t bytes, byte_size(views[i].dtype, views[i].shape));
    if (is_contiguous(views[i])) {
      digests[i] = xxh128({static_cast<const std::byte*>(views[i].data), bytes});
      return Done{};
    }
    std::vector<std::byte> logical(bytes);
    gather(views[i], logical);
    digests[i] = xxh128(logical);
    return Done{};
  }));
  return digests;
}

}  // namespace unbroken
