internal import Foundation

// What is archived of response serializers: everything, as they have no closures but for `DecodableResponseSerializer`, which is not archived.

extension HTTPResponseSerializer: ArchivableSerializer {
  /// `http`.
  public static var archiveName: String { "http" }
}

extension JSONResponseSerializer: ArchivableSerializer {
  /// `json`.
  public static var archiveName: String { "json" }
}

extension PropertyListResponseSerializer: ArchivableSerializer {
  /// `propertyList`.
  public static var archiveName: String { "propertyList" }
}

extension ImageResponseSerializer: ArchivableSerializer {
  /// `image`.
  public static var archiveName: String { "image" }
}

extension StringResponseSerializer: ArchivableSerializer {
  /// `string`.
  public static var archiveName: String { "string" }

  private enum CodingKeys: String, CodingKey {
    case validation, encoding
  }

  /// Reads an archive.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    self.init(
      encoding: try container.decodeIfPresent(UInt.self, forKey: .encoding).map { String.Encoding(rawValue: $0) },
      validation: try container.decode(ResponseValidation.self, forKey: .validation))
  }

  /// Writes an archive.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encodeIfPresent(encoding?.rawValue, forKey: .encoding)
    try container.encode(validation, forKey: .validation)
  }
}

extension CompoundResponseSerializer: ArchivableSerializer {
  /// `compound`.
  public static var archiveName: String { "compound" }

  private enum CodingKeys: String, CodingKey {
    case validation, responseSerializers
  }

  /// Reads an archive. Members that are not of this module have to be among the decoder's `SerializerTypes`.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let members = try container.decode([ArchivedSerializer].self, forKey: .responseSerializers)
    self.init(
      try members.map { try $0.value(as: (any ResponseSerializer).self, at: container.codingPath) },
      validation: try container.decode(ResponseValidation.self, forKey: .validation))
  }

  /// Writes an archive, with all members.
  ///
  /// - Throws: `EncodingError` for a member that cannot be archived.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(validation, forKey: .validation)
    let members = try responseSerializers.map { try ArchivedSerializer($0, at: encoder.codingPath) }
    try container.encode(members, forKey: .responseSerializers)
  }
}
