#pragma once
// Errors are part of the public interface.
#include "unbroken/error.h"
