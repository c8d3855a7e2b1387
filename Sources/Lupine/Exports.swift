// One import is enough: sessions, requests, responses, methods, statuses and fields are part of this module's vocabulary.
@_exported public import LupineSession
