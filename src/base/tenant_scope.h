#pragma once

// Which tenants an order or a list is about: one, or one together with its forms under other scales of LoRA adapters.
//
// A client that names a salt means all state that its requests computed. Requests with other scales have a tenant of
// their own (with_adapters()), so that no state is reused under the wrong scales; but it is the same client's state,
// and a client that asks to see or to forget its state must reach that, too. The scales cannot be told from a tenant,
// but the tenant that it is a form of can be recognised.

#include "base/hash.h"

namespace kvkeep {

// Returns true if with_adapters() made `form` of `tenant`, whatever the scales. By 64 bits of a hash of `tenant`: forms
// of another one pass with a chance of 1 in 2^64.
bool is_form_of(const Tenant& form, const Tenant& tenant);

// A set of tenants: a single one, or also its forms. Plain data. Cost of has(): at most one hash of 32 bytes, of those
// with the mark of adapters only.
class TenantScope {
 public:
  // Converts, because most callers mean a single tenant.
  TenantScope(const Tenant& tenant) : tenant_(tenant) {}  // NOLINT(google-explicit-constructor)
  static TenantScope with_forms(const Tenant& tenant) {
    TenantScope scope(tenant);
    scope.with_forms_ = true;
    return scope;
  }

  bool has(const Tenant& other) const { return other == tenant_ || (with_forms_ && is_form_of(other, tenant_)); }

 private:
  Tenant tenant_;
  bool with_forms_ = false;
};

// Returns true if requests name a salt to have this tenant, whatever their scales: those that name none have kNoTenant,
// or a form of it.
inline bool is_salted(const Tenant& tenant) { return !TenantScope::with_forms(kNoTenant).has(tenant); }

}  // namespace kvkeep
