#include "CLupineZlib.h"
