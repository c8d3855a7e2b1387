// What people read. Nothing of the peer's text is repeated here except a scheme, which is plain ASCII by then.

extension URLRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tooLong(let count, let limit): "the URL has \(count) bytes, more than \(limit)"
    case .missingScheme: "the URL has no scheme"
    case .unsupportedScheme(let scheme): "the scheme \(scheme) is neither http nor https"
    case .missingAuthority: "the scheme is not followed by // and a host"
    case .control(let byte, let offset): "a control character (\(byte)) at byte \(offset) of the URL"
    case .invalidAuthorityByte(let byte, let offset):
      "the byte \(byte) at byte \(offset) cannot stand before the path of a URL"
    case .invalidPort: "the port is not a number from 1 to 65535"
    case .invalidHost(let refusal): refusal.description
    }
  }
}

extension HostRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .empty: "the host is empty"
    case .invalidByte(let byte): "the byte \(byte) cannot stand in a host"
    case .emptyLabel: "the host has an empty label"
    case .labelTooLong(let count): "a label of the host has \(count) bytes, more than 63"
    case .nameTooLong(let count): "the host has \(count) bytes, more than 253"
    case .ambiguousIPv4: "the host looks like an IPv4 address, but is not four decimal octets"
    case .invalidIPv6: "the host is not an IPv6 address in brackets"
    case .invalidZone: "the zone of the IPv6 address is not valid"
    case .notUTF8: "the host is not UTF-8"
    case .notNormalised: "the host is not in Unicode normalisation form C"
    case .disallowedScalar(let value): "U+\(String(value, radix: 16, uppercase: true)) is not permitted in a host"
    case .mixedDirections: "a label of the host mixes writing directions or sets of digits"
    case .invalidLabelForm: "a Unicode label of the host has a hyphen or a combining mark where none may stand"
    case .invalidPunycode: "a label of the host begins with xn-- but is not valid Punycode"
    }
  }
}

extension RedirectRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tooManyRedirects(let limit): "more than \(limit) redirects"
    case .downgrade: "the redirect leads from https to http"
    case .ambiguousLocation: "the redirect has several Location fields that differ"
    case .invalidLocation(let refusal): "the redirect leads nowhere: \(refusal)"
    }
  }
}

extension CredentialsRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .colonInUser: "the user name has a colon, which Basic cannot carry"
    case .controlInUser: "the user name has a control character"
    case .controlInPassword: "the password has a control character"
    case .invalidToken: "the token has a character that no bearer token has"
    }
  }
}

extension DigestRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .notDigest: "the challenge is not Digest"
    case .missing(let parameter): "the challenge has no \(parameter)"
    case .notUTF8(let parameter): "the \(parameter) of the challenge is not UTF-8"
    case .unknownAlgorithm: "the challenge has an unknown algorithm"
    case .unknownQuality: "the challenge has no quality of protection that is known"
    case .needsBodyHash: "the server wants the body hashed (qop=auth-int), and a stream can be read only once"
    case .unavailable(let hash): "OpenSSL does not offer \(hash.name) here"
    case .controlInUser: "the user name has a control character"
    case .controlInPassword: "the password has a control character"
    case .nonceExhausted: "the nonce has been used too often"
    }
  }
}

extension SOCKS5Error: CustomStringConvertible {
  package var description: String {
    switch self {
    case .nameLength(let count): "the host name has \(count) bytes, and SOCKS5 carries 1 to 255"
    case .userLength(let count): "the user has \(count) bytes, and SOCKS5 carries 1 to 255"
    case .passwordLength(let count): "the password has \(count) bytes, and SOCKS5 carries at most 255"
    case .wrongVersion(let byte): "an answer begins with the byte \(byte), which is not its version"
    case .noAcceptableMethod(offeredPassword: false): "the SOCKS proxy wants to know who is asking"
    case .noAcceptableMethod(offeredPassword: true):
      "the SOCKS proxy takes neither user and password nor a client without them"
    case .methodNotOffered(let byte): "the proxy chose the method \(byte), which was not offered"
    case .credentialsRefused(let byte): "the proxy refused user and password with status \(byte)"
    case .refused(let reply): reply.description
    case .unknownAddressType(let byte): "the proxy's answer has an address of the unknown type \(byte)"
    }
  }
}

extension SOCKS5Reply: CustomStringConvertible {
  package var description: String {
    switch self {
    case .generalFailure: "a general failure of the proxy"
    case .notAllowed: "the proxy's rules do not allow it"
    case .networkUnreachable: "the network cannot be reached"
    case .hostUnreachable: "the host cannot be reached"
    case .connectionRefused: "the connection was refused"
    case .timeToLiveExpired: "the time to live has expired"
    case .commandNotSupported: "the proxy does not know CONNECT"
    case .addressTypeNotSupported: "the proxy does not support the type of the address"
    case .other(let code): "the proxy answered with the unknown code \(code)"
    }
  }
}

extension TunnelError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .refused(let refusal): "the proxy answered CONNECT with status \(refusal.status)"
    case .wire(let error): "the proxy's answer to CONNECT cannot be read: \(error)"
    case .badRequest(let error): "CONNECT cannot be written: \(error)"
    case .credentials(let text): "the credentials cannot be sent: \(text)"
    case .closed: "the proxy hung up before it answered CONNECT"
    }
  }
}

extension ProxyRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .empty: "the text is empty"
    case .tooLong(let limit): "the text has more than \(limit) bytes"
    case .unsupportedScheme(let scheme):
      "\(scheme):// is no proxy's; there are http, https, socks5 and socks5h, and unix for a socket"
    case .authority(let refusal): refusal.description
    case .userinfo: "user and password are not UTF-8, or there is a password without a user"
    case .path: "there is a path, query or fragment, which the URL of a proxy has not"
    case .socketPath: "the path of the socket is not absolute, or does not fit into a socket's address"
    }
  }
}

extension ContentCodingRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tooMany(let limit): "more than \(limit) content codings"
    case .unknown: "a content coding that is not known here"
    }
  }
}

extension TrailerRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .forbidden(let name): "\(name) cannot be a trailer field, as what it says is wanted before the body"
    case .secret(let name): "\(name) is a secret, which is never a trailer field"
    case .notAnnounced(let name): "the trailer field \(name) is not among Request.trailerNames"
    case .invalid(let name): "the trailer field \(name) has characters that no field can carry"
    case .tooMany(let limit): "there are more than \(limit) trailer fields"
    case .tooLarge(let limit): "the trailer fields have more than \(limit) bytes"
    }
  }
}
