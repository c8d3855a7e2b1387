internal import LupineRules
