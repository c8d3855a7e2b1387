import FoundationEssentials
import LupineBase
import LupineRules
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// `Link` fields of responses (RFC 8288).
@Suite(.timeLimit(.minutes(1))) struct WebLinkTests {
  /// What the server answers below `/v1/users`, where a redirect has led.
  private func response(_ links: @escaping @Sendable (_ site: String) -> [String]) async throws -> (
    Response, site: String
  ) {
    let server = try LoopbackServer { request, connection in
      if request.target == "/" { return try connection.respond(302, fields: ["Location": "/v1/users?page=1"]) }
      let site = "http://\(request.fields.first("Host") ?? "")"
      var fields = ServerFields()
      for link in links(site) { fields.append("Link", link) }
      try connection.respond(200, fields: fields)
    }
    defer { server.shutdown() }
    let session = try Session(.ephemeral)
    defer { session.invalidateAndCancel() }
    return (try await session.data(from: server.url("/")).1, server.url(""))
  }

  /// Relative to the URL that answered, not to the one that was asked for.
  @Test func targetsAreResolved() async throws {
    let (response, site) = try await response { _ in
      [
        "<?page=2>; rel=next, </v1/users?page=9>; rel=\"last end\"", "<roles#top>; rel=related; title=Roles",
        "<mailto:a@b.test>; rel=author, <http://[>; rel=x",
      ]
    }
    let links = response.links
    #expect(links.map(\.urlString) == ["\(site)/v1/users?page=2", "\(site)/v1/users?page=9", "\(site)/v1/roles"])
    #expect(links.map(\.staysAtOrigin) == [true, true, true])
    #expect(response.link("NEXT")?.urlString == "\(site)/v1/users?page=2")
    #expect(response.link("end")?.relations == ["last", "end"] && response.link("prev") == nil)
    #expect(links.last?.title == "Roles" && links.last?[parameter: "Title"] == "Roles")
    #expect(links.first?.url?.absoluteString == links.first?.urlString)
  }

  /// Where credentials may go is the caller's to decide, and this is what it needs to know.
  @Test func otherOriginsAreTold() async throws {
    let (response, _) = try await response { site in
      [
        "<https\(site.dropFirst(4))/a>; rel=scheme", "<//other.test/a>; rel=host", "<http://127.0.0.1:1/>; rel=port",
        "<http://user:secret@127.0.0.1/>; rel=user",
      ]
    }
    #expect(response.links.map(\.staysAtOrigin) == [false, false, false, false])
    #expect(response.link("user")?.urlString == "http://127.0.0.1/")
  }

  /// A redirect is no reason to trust where it led: what the request carried was dropped on the way. Nor does a link lead back: else whoever was
  /// redirected to would choose what the token is sent for.
  @Test(arguments: [false, true]) func aRedirectMakesNoOrigin(_ leadsBack: Bool) async throws {
    let linked = Locked("/b")
    let other = try LoopbackServer { _, connection in
      try connection.respond(200, fields: ["Link": "<\(linked.withLock { $0 })>; rel=next"])
    }
    defer { other.shutdown() }
    let target = other.url("/a")
    let server = try LoopbackServer { _, connection in try connection.respond(302, fields: ["Location": target]) }
    defer { server.shutdown() }
    if leadsBack { linked.withLock { $0 = server.url("/b") } }
    let session = try Session(.ephemeral)
    defer { session.invalidateAndCancel() }
    let (_, response) = try await session.data(from: server.url("/"))
    let link = try #require(response.link("next"))
    #expect(link.urlString == (leadsBack ? server : other).url("/b") && !link.staysAtOrigin)
  }

  /// Who follows a link of a link-local address finds nobody there without its zone.
  @Test func theZoneOfAnAddressGoesAlong() throws {
    let head = try ResponseHead(status: 200, fields: [("Link", "</2>; rel=next, <http://[fe80::2]/>; rel=other")])
    let response = Response(head: head, url: try URLReader.read("http://[fe80::1%25eth0]:81/1"))
    #expect(response.link("next")?.urlString == "http://[fe80::1%25eth0]:81/2")
    #expect(response.link("next")?.staysAtOrigin == true)
    #expect(response.link("other")?.urlString == "http://[fe80::2]/")
  }

  /// A link of something else is no link of this response.
  @Test func anchors() async throws {
    let (response, site) = try await response { _ in ["</a>; rel=next; anchor=\"/elsewhere\", </b>; rel=next"] }
    #expect(response.links.count == 2 && response.link("next")?.urlString == "\(site)/b")
  }

  @Test func noneAndTooMany() async throws {
    let (none, _) = try await response { _ in [] }
    #expect(none.links.isEmpty && none.link("next") == nil)
    let (many, _) = try await response { _ in
      Array(repeating: Array(repeating: "</a>", count: 30).joined(separator: ","), count: 10)
    }
    #expect(many.links.count == 256)
  }
}
