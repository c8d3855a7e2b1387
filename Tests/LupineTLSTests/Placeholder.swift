internal import LupineTLS
