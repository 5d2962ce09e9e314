#pragma once
// Element types are part of the public interface.
#include "unbroken/dtype.h"
