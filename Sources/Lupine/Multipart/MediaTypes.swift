internal import Foundation

/// Media types by the extension of a file's name.
///
/// The common ones are the same everywhere; of others the system's `/etc/mime.types` is asked, and what it does not know is
/// `application/octet-stream`.
package enum MediaTypes {
  package static let unknown = "application/octet-stream"

  /// - Parameter name: without the dot; case does not matter.
  package static func type(ofExtension name: String) -> String {
    guard !name.isEmpty else { return unknown }
    let name = name.lowercased()
    return common[name] ?? system[name] ?? unknown
  }

  /// - Parameter path: a path or a file name.
  package static func type(ofFile path: String) -> String {
    let name = path.split(separator: "/").last ?? ""
    guard let dot = name.lastIndex(of: ".") else { return unknown }
    return type(ofExtension: String(name[name.index(after: dot)...]))
  }

  /// Reads the lines of `mime.types`: a type and the extensions it has; `#` begins a comment. The first line of an extension counts.
  package static func parse(_ text: String) -> [String: String] {
    var types: [String: String] = [:]
    // By bytes: asking every character what it is takes 8 ms for the thousands of lines of a usual file.
    for line in text.utf8.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
      let words = line.prefix { $0 != UInt8(ascii: "#") }.split { $0 == UInt8(ascii: " ") || (9...12).contains($0) }
      guard words.count > 1, let type = words.first, type.contains(UInt8(ascii: "/")),
        type.allSatisfy({ $0 > UInt8(ascii: " ") && $0 < 0x80 })
      else { continue }
      let value = String(Substring(type))
      for word in words.dropFirst() {
        let name = Substring(word).lowercased()
        if types[name] == nil { types[name] = value }
      }
    }
    return types
  }

  private static let system: [String: String] =
    (try? String(contentsOfFile: "/etc/mime.types", encoding: .utf8)).map { parse($0) } ?? [:]

  /// `cer` is as AFNetworking's test wants it.
  private static let common = [
    "7z": "application/x-7z-compressed", "aac": "audio/aac", "avi": "video/x-msvideo", "avif": "image/avif",
    "bin": "application/octet-stream", "bmp": "image/bmp", "bz2": "application/x-bzip2",
    "cer": "application/x-x509-ca-cert", "crt": "application/x-x509-ca-cert", "css": "text/css", "csv": "text/csv",
    "der": "application/x-x509-ca-cert", "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "eot": "application/vnd.ms-fontobject",
    "epub": "application/epub+zip", "flac": "audio/flac", "gif": "image/gif", "gz": "application/gzip",
    "heic": "image/heic", "htm": "text/html", "html": "text/html", "ico": "image/vnd.microsoft.icon",
    "ics": "text/calendar", "jpeg": "image/jpeg", "jpg": "image/jpeg", "js": "text/javascript",
    "json": "application/json",
    "m4a": "audio/mp4", "m4v": "video/x-m4v", "md": "text/markdown", "mjs": "text/javascript", "mov": "video/quicktime",
    "mp3": "audio/mpeg", "mp4": "video/mp4", "mpeg": "video/mpeg", "oga": "audio/ogg", "ogg": "audio/ogg",
    "ogv": "video/ogg", "opus": "audio/ogg", "otf": "font/otf", "p12": "application/x-pkcs12", "pdf": "application/pdf",
    "pem": "application/x-pem-file", "plist": "application/x-plist", "png": "image/png",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", "rtf": "application/rtf",
    "svg": "image/svg+xml", "tar": "application/x-tar", "tif": "image/tiff", "tiff": "image/tiff", "ttf": "font/ttf",
    "txt": "text/plain", "wasm": "application/wasm", "wav": "audio/x-wav", "weba": "audio/webm", "webm": "video/webm",
    "webp": "image/webp", "woff": "font/woff", "woff2": "font/woff2", "xhtml": "application/xhtml+xml",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xml": "application/xml",
    "xz": "application/x-xz", "yaml": "application/yaml", "yml": "application/yaml", "zip": "application/zip",
    "zst": "application/zstd",
  ]
}
