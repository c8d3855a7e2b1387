#include "CLupineLinux.h"
