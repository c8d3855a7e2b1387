#include "CLupineVector.h"
