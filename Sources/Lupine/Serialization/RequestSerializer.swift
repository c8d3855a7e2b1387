public import LupineSession

/// Puts parameters into a request. Values: a task keeps what it was made with, whatever happens to the manager's serializer later.
///
/// Source: `AFURLRequestSerialization`.
public protocol RequestSerializer: Sendable {
  /// A copy of `request` with `parameters` in its query or its body, and with what else the serializer is set to add.
  ///
  /// - Parameter parameters: dictionaries, arrays, sets, strings, numbers, or any `Encodable` where the serializer says so; nil for none.
  /// - Throws: `SerializationError` with `.requestSerializationFailed` when the parameters cannot be expressed, or what a hook of the
  ///   caller's throws.
  ///
  /// Any thread.
  func serialize(_ request: Request, parameters: (any Sendable)?) throws -> Request
}
