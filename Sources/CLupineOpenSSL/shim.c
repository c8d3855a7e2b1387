#include "CLupineOpenSSL.h"
