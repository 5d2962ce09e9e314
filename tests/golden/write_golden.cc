// Writes the runs of golden_run.h below the folder it is given (tools/make_golden.py).
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "golden_run.h"

int main(int argc, char** argv) {
  if (argc != 2) return 78;
  for (const auto& [run, files] : unbroken::GoldenRun::all())
    for (const auto& [key, bytes] : files) {
      const std::filesystem::path path = std::filesystem::path(argv[1]) / run / key;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream out(path, std::ios::binary);
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      if (!out.flush()) {
        std::fprintf(stderr, "error: cannot write %s\n", path.c_str());
        return 74;
      }
    }
  return 0;
}
