// One import is enough: methods, statuses and fields are part of this module's vocabulary.
@_exported public import HTTPTypes
