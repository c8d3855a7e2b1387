/// A serializer that can be written into an archive together with others, where its name says what it is. Yours too: see `SerializerTypes`.
///
/// Source: `NSSecureCoding`, which AFNetworking's serializers conform to.
public protocol ArchivableSerializer: Codable, Sendable {
  /// What stands for the type in archives. Never change it.
  static var archiveName: String { get }
}

/// The types of serializers that an archive may name: those of this module, and what a program adds. Any other name is refused, whatever the archive says.
///
/// A compound serializer, or a manager, with serializers of your own is read by a decoder that is told of them:
/// `decoder.userInfo[SerializerTypes.key] = SerializerTypes([MySerializer.self])`.
public struct SerializerTypes: Sendable {
  /// Where a decoder has them among its `userInfo`.
  public static let key: CodingUserInfoKey = {
    guard let key = CodingUserInfoKey(rawValue: "lupine.serializerTypes") else {
      preconditionFailure("a text is a key")
    }
    return key
  }()
  private let types: [String: any ArchivableSerializer.Type]

  /// Those of this module, and others, which go before them.
  public init(_ others: [any ArchivableSerializer.Type] = []) {
    var types: [String: any ArchivableSerializer.Type] = [:]
    for type in Self.own + others { types[type.archiveName] = type }
    self.types = types
  }

  private static let own: [any ArchivableSerializer.Type] = [
    HTTPRequestSerializer.self, JSONRequestSerializer.self, PropertyListRequestSerializer.self,
    HTTPResponseSerializer.self, JSONResponseSerializer.self, PropertyListResponseSerializer.self,
    StringResponseSerializer.self, ImageResponseSerializer.self, CompoundResponseSerializer.self,
  ]

  func type(_ name: String) -> (any ArchivableSerializer.Type)? { types[name] }
}

/// A serializer in an archive, behind its name.
struct ArchivedSerializer: Codable {
  private let serializer: any ArchivableSerializer

  private enum CodingKeys: String, CodingKey {
    case type, settings
  }

  /// - Throws: `EncodingError` for a serializer that cannot be archived.
  init(_ serializer: Any, at path: [any CodingKey]) throws {
    guard let value = serializer as? any ArchivableSerializer else {
      throw EncodingError.invalidValue(
        serializer, .init(codingPath: path, debugDescription: "\(type(of: serializer)) cannot be archived"))
    }
    self.serializer = value
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let types = decoder.userInfo[SerializerTypes.key] as? SerializerTypes ?? SerializerTypes()
    let name = try container.decode(String.self, forKey: .type)
    guard let type = types.type(name) else {
      throw DecodingError.dataCorruptedError(
        forKey: .type, in: container, debugDescription: "no serializer has the name \(String(reflecting: name))")
    }
    serializer = try type.init(from: container.superDecoder(forKey: .settings))
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(type(of: serializer).archiveName, forKey: .type)
    try serializer.encode(to: container.superEncoder(forKey: .settings))
  }

  /// The serializer as what it has to be.
  func value<Kind>(as kind: Kind.Type, at path: [any CodingKey]) throws -> Kind {
    guard let value = serializer as? Kind else {
      throw DecodingError.typeMismatch(
        kind, .init(codingPath: path, debugDescription: "\(type(of: serializer)) stands where another kind belongs"))
    }
    return value
  }
}
