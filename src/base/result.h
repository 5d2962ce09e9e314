#pragma once
// Results are part of the public interface.
#include "unbroken/result.h"
