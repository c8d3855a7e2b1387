public import FoundationEssentials
internal import LupineRules
internal import LupineWire

/// A link of a `Link` field (RFC 8288): what the server says goes with what it sent, the next page for example.
public struct WebLink: Sendable, Hashable {
  /// Where it leads: resolved against the URL that answered; without userinfo and fragment, with the zone of an address.
  public let urlString: String

  /// Whether it leads to the scheme, host and port that the request was made for, and comes from there, and not from where a redirect led to. Servers choose
  /// where links lead: who sends along what is meant for one server alone, a token for example, follows no other.
  public let staysAtOrigin: Bool

  private let value: LinkValue

  /// The types of its `rel`, in order, in small letters: `["next"]`.
  public var relations: [String] { value.relations }

  /// Its title, the one in RFC 8187's form first; nil if it has none.
  public var title: String? { value.title }

  /// A parameter; letters of its name are the same whatever their case. The first of that name counts; nil if there is none.
  public subscript(parameter name: String) -> String? { value[name.lowercased()] }

  /// The URL for Foundation; nil if Foundation cannot read it.
  public var url: URL? { URL(string: urlString) }

  /// What it is a link of, if that is not the response.
  fileprivate var anchor: String? { value["anchor"] }

  /// Nil if it leads to nothing that is fetched.
  fileprivate init?(_ value: LinkValue, of response: Response) {
    guard let target = try? URLReader.resolve(value.target, against: response.parsedURL) else { return nil }
    urlString = target.identity
    staysAtOrigin =
      OriginRule.isSame(target, response.redirects.first?.url ?? response.parsedURL)
      && OriginRule.isSame(target, response.parsedURL)
    self.value = value
  }
}

extension Response {
  /// The links of its `Link` fields (RFC 8288), read when asked for: those that lead to an http or https URL, 256 at most.
  public var links: [WebLink] {
    let values = head.fields.values(named: "link").lazy.flatMap(LinkValue.read)
    return values.prefix(LinkValue.maximumCount).compactMap { WebLink($0, of: self) }
  }

  /// The first link of a relation type, `next` for example, letters the same whatever their case. Links of something else than this response (`anchor`) are left out.
  public func link(_ relation: String) -> WebLink? {
    let relation = relation.lowercased()
    return links.first { $0.anchor == nil && $0.relations.contains(relation) }
  }
}
